"""The source text of generated codecs: one module writes decoders, one encoders."""
