"""Fetch across several partitions: sessions (KIP-227), the byte budget (KIP-74), throttling, replica selection."""
