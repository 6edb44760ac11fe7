"""`python -m benchmarks`: Odradek and a real Kafka under the same load, in turns, as ratios. See docs/benchmarks.md."""
