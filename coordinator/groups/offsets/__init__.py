"""Committed offsets: committing, in transactions too, fetching, deleting, and the store that keeps them."""
