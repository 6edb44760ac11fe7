"""Reads topics and committed records from a store beside the broker that writes it."""
