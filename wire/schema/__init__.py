"""How messages are described: field types, versions, and the codecs generated for each version."""
