"""`python -m benchmarks`: compares Odradek with a real Kafka under the same loads, as ratios (docs/benchmarks.md)."""
