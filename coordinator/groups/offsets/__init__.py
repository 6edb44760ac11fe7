"""Committed offsets: committing, also in transactions, fetching, deleting, and the store that keeps them."""
