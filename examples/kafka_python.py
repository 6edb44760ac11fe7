"""A broker inside this program, and kafka-python: `.venv/bin/python -m examples.kafka_python`."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, at import
    from kafka import KafkaConsumer, KafkaProducer

import odradek


def main() -> None:
    """Produce three records and read them back."""
    with odradek.broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for city, degrees in (("Prague", 21), ("Brno", 24), ("Prague", 22)):
            headers = [("unit", b"celsius")]
            sent = producer.send("temperatures", key=city.encode(), value=str(degrees).encode(), headers=headers)
            where = sent.get(timeout=10)
            print(f"{city} is safe at {where.topic}-{where.partition}, offset {where.offset}")
        producer.close()

        consumer = KafkaConsumer(
            "temperatures",
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            consumer_timeout_ms=5_000,
        )
        for number, record in enumerate(consumer, start=1):
            unit = dict(record.headers)["unit"].decode()
            print(f"read offset {record.offset}: {record.key.decode()} {record.value.decode()} {unit}")
            if number == 3:
                break
        consumer.close()


if __name__ == "__main__":
    main()
