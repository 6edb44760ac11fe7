"""What Kafka keeps in its internal topics, in Kafka's own formats.

The ``*_records`` modules hold the records' schemas, ``framing`` what
surrounds them in a log.
"""
