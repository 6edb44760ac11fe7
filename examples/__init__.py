"""Small programs that run as they stand, and the demo in `examples.flights`."""
