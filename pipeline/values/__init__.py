"""Parses keys and values into columns: JSON, Avro and Protobuf. Records that cannot be parsed get an error."""
