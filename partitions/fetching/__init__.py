"""Fetch across partitions: sessions (KIP-227) and the budget of bytes (KIP-74)."""
