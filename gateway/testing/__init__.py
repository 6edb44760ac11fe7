"""Brokers and clusters for tests (public as `odradek.testing`), the checker of histories, and the simulation."""
