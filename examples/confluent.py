"""A broker inside this program, and confluent-kafka (librdkafka): `.venv/bin/python -m examples.confluent`."""

from confluent_kafka import Consumer, KafkaError, Message, Producer

import odradek

COUNT = 10_000


def require_delivered(error: KafkaError | None, message: Message) -> None:
    """The delivery report, which librdkafka calls for each record."""
    if error is not None:
        raise SystemExit(f"{message.topic()}: {error}")


def main() -> None:
    """Produce ten thousand compressed records and count them."""
    with odradek.broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "zstd", "linger.ms": 5})
        for number in range(COUNT):
            producer.produce("numbers", key=str(number % 100), value=str(number), on_delivery=require_delivered)
            producer.poll(0)
        producer.flush()
        print(f"{COUNT} records delivered")

        settings = {"bootstrap.servers": broker.bootstrap, "group.id": "adders", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe(["numbers"])
        values: list[int] = []
        while len(values) < COUNT:
            for message in consumer.consume(1_000, timeout=1.0):
                if message.error() is not None:
                    raise SystemExit(str(message.error()))
                values.append(int(message.value()))
        consumer.close()
        print(f"{len(values)} records read, their sum is {sum(values):,}")


if __name__ == "__main__":
    main()
