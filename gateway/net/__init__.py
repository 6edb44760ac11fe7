"""The network: byte streams and listeners over TCP, and what limits them."""
