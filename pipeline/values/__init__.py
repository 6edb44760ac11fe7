"""Keys and values as columns: JSON, Avro and Protobuf. What does not parse has an error instead."""
