"""The load of the demo: idempotent producers and a consumer, and the history of their operations."""

import threading
import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from odradek.gateway.testing.history.operations import Key, Operation, Outcome, Read, Sent

FLUSH_S = 60.0


class Sends:
    """The records of one producer, with the times and offsets of their acknowledgements."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.history: list[Operation] = []
        self.acknowledged: list[tuple[float, float]] = []
        """The time of each acknowledgement, and its latency after `produce`, in seconds."""
        self.failures: list[str] = []

    def delivered(self, key: Key, value: str, began: int) -> Callable[[KafkaError | None, Message], None]:
        """The delivery callback for one record."""

        def call(error: KafkaError | None, message: Message) -> None:
            now = time.perf_counter_ns()
            if error is None:
                self.acknowledged.append((now / 1e9, (now - began) / 1e9))
                steps = (Sent(key, value, message.offset()),)
                self.history.append(Operation(self.name, Outcome.OK, steps, began, now))
            else:
                self.failures.append(str(error))
                self.history.append(Operation(self.name, Outcome.UNKNOWN, (Sent(key, value),), began, None))

        return call


def produce(bootstrap: str, topic: str, partition: int, rate: float, stop: threading.Event) -> Sends:
    """Send numbered records to a partition, `rate` a second, until `stop`; then wait for all acknowledgements."""
    sends = Sends(f"producer-{partition}")
    settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "log_level": 0}
    producer = Producer(settings)
    began, number = time.perf_counter(), 0
    while not stop.is_set():
        while number < (time.perf_counter() - began) * rate and not stop.is_set():
            value = f"{partition}:{number}"
            on_delivery = sends.delivered((topic, partition), value, time.perf_counter_ns())
            producer.produce(topic, value.encode(), partition=partition, on_delivery=on_delivery)
            number += 1
        producer.poll(0.005)
    left = producer.flush(FLUSH_S)
    if left:
        sends.failures.append(f"{left} records were not answered within {FLUSH_S:.0f} s")
    return sends


def consume(
    bootstrap: str, topic: str, partitions: int, stop: threading.Event, until: Mapping[int, int]
) -> tuple[list[Operation], list[float]]:
    """Read all partitions from the start until `stop`, and on to the offsets in `until`, which are set by then.

    Gives the history, and when each record was read.
    """
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "demo", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    history: list[Operation] = []
    times: list[float] = []
    position = dict.fromkeys(range(partitions), 0)
    deadline: float | None = None
    while not (stop.is_set() and all(position[index] >= end for index, end in until.items())):
        if stop.is_set():
            deadline = deadline or time.perf_counter() + FLUSH_S
            if time.perf_counter() > deadline:
                break
        began = time.perf_counter_ns()
        steps: list[Read] = []
        for message in consumer.consume(500, 0.2):
            if message.error() is None:
                index, offset = message.partition() or 0, message.offset() or 0
                steps.append(Read((topic, index), offset, (message.value() or b"").decode()))
                position[index] = offset + 1
        now = time.perf_counter_ns()
        times += [now / 1e9] * len(steps)
        if steps:
            history.append(Operation("consumer", Outcome.OK, steps, began, now))
    consumer.close()
    return history, times
