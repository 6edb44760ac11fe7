"""The records of Kafka's internal topics, in Kafka's formats. The ``*_records`` modules contain the schemas;
``framing`` encodes and decodes keys and values with their type and version.
"""
