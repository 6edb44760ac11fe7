"""The network: byte streams and listeners over TCP, and their limits."""
