"""A test that uses a Kafka broker, with the fixtures that pytest finds when odradek is installed.

`kafka_broker` is one broker for the whole run, `kafka_topic` a new topic for each test.
"""

from kafka import KafkaConsumer, KafkaProducer

from odradek import TestBroker


def shout(bootstrap: str, source: str, target: str, count: int) -> None:
    """The program under test: copies `count` records in capitals."""
    consumer = KafkaConsumer(source, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _, record in zip(range(count), consumer, strict=False):
        producer.send(target, record.value.upper())
    producer.close()
    consumer.close()


def test_shouting(kafka_broker: TestBroker, kafka_topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
    for word in (b"quiet", b"words"):
        producer.send(kafka_topic, word)
    producer.close()

    shout(kafka_broker.bootstrap, kafka_topic, f"{kafka_topic}-loud", 2)

    consumer = KafkaConsumer(
        f"{kafka_topic}-loud", bootstrap_servers=kafka_broker.bootstrap, auto_offset_reset="earliest"
    )
    received = [next(consumer).value for _ in range(2)]
    consumer.close()
    assert received == [b"QUIET", b"WORDS"]
