"""Code common to several handlers, which do not import each other."""
