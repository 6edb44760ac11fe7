"""Small programs, and the demos in `examples.flights`, `flights_pipeline`, `flights_sql` and `cluster`."""
