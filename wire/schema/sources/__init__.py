"""Generators of the codecs' source: one module for decoders, one for encoders."""
