"""Stores for logs behind one interface, reached by URL through `opener`."""
