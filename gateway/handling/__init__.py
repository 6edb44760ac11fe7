"""What several handlers share, since they do not import each other."""
