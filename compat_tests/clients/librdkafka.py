"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from compat_tests.clients import DEADLINE_S, HEARTBEAT_MS, Deadline, Record, in_order, once, seen


def _name(error: Any) -> str:
    error = error.args[0] if isinstance(error, KafkaException) else error
    return error.name() if isinstance(error, KafkaError) else type(error).__name__


def produce(
    bootstrap: str,
    topic: str,
    records: list[Record],
    *,
    codec: str = "none",
    idempotent: bool | None = None,
    max_bytes: int = 1_048_576,
    during: Callable[[], None] = lambda: None,
) -> list[Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "enable.idempotence": bool(idempotent),
        "message.max.bytes": max_bytes,
        "linger.ms": 5,
        "message.timeout.ms": int(DEADLINE_S * 1000),
        "log_level": 2,
    }
    producer = Producer(settings)
    placed: list[Any] = [None] * len(records)
    for index, record in enumerate(records):
        if index == len(records) // 2:
            producer.flush(DEADLINE_S)
            during()
        _send(producer, topic, record, placed, index)
    assert producer.flush(DEADLINE_S + 10) == 0, "records were neither delivered nor refused"
    return placed


def _send(producer: Producer, topic: str, record: Record, placed: list[Any], index: int) -> None:
    def report(error: KafkaError | None, message: Any) -> None:
        placed[index] = _name(error) if error else [message.partition(), message.offset()]

    extra = {} if record.partition is None else {"partition": record.partition}
    try:
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            timestamp=record.timestamp_ms,
            headers=record.headers,
            on_delivery=report,
            **extra,
        )
    except KafkaException as error:
        placed[index] = _name(error)
    producer.poll(0)


def consumer_of(bootstrap: str, **extra: Any) -> Consumer:
    """A consumer that reads from the beginning; in `extra`, `_` stands for `.`."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
        "log_level": 2,
    }
    return Consumer({**settings, **{_setting(key): value for key, value in extra.items()}})


def _setting(name: str) -> str:
    return name if name == "error_cb" else name.replace("_", ".")


def messages(consumer: Consumer, count: int) -> list[Message]:
    """Reads the next `count` messages. Raises KafkaException."""
    found: list[Message] = []
    deadline = Deadline(f"{count} records")
    while len(found) < count:
        for message in consumer.consume(count - len(found), timeout=0.2):
            if message.error() and message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public constant
                continue
            if message.error():
                raise KafkaException(message.error())
            found.append(message)
        deadline.check(len(found))
    return found


def _collect(consumer: Consumer, count: int) -> list[dict[str, Any]]:
    return [_seen(message) for message in messages(consumer, count)]


def _seen(message: Message) -> dict[str, Any]:
    kind, timestamp = message.timestamp()
    assert kind != TIMESTAMP_NOT_AVAILABLE
    return seen(message.partition(), message.offset(), message.key(), message.value(), message.headers(), timestamp)


def read(bootstrap: str, topic: str, count: int, *, start: dict[int, int] | None = None) -> list[dict[str, Any]]:
    consumer = consumer_of(bootstrap)
    try:
        partitions = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        offsets = {p: (start or {}).get(p, OFFSET_BEGINNING) for p in sorted(partitions)}
        consumer.assign([TopicPartition(topic, p, offset) for p, offset in offsets.items()])
        return in_order(_collect(consumer, count))
    finally:
        consumer.close()


def seek(bootstrap: str, topic: str, steps: list[int | str]) -> list[Any]:
    consumer = consumer_of(bootstrap, enable_partition_eof=True)
    positions = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}
    found: list[Any] = []
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        _collect(consumer, 1)
        for step in steps:
            consumer.seek(TopicPartition(topic, 0, positions.get(str(step), step)))
            if step == "end":
                found.append({"step": step, "end": _await_end(consumer)})
                continue
            next_offset = _collect(consumer, 1)[0]["offset"]
            position = consumer.position([TopicPartition(topic, 0)])[0].offset
            found.append({"step": step, "position": position, "read": next_offset})
        found.append({"watermarks": list(consumer.get_watermark_offsets(TopicPartition(topic, 0)))})
    finally:
        consumer.close()
    return found


def _await_end(consumer: Consumer) -> int:
    """The end of the partition. A seek to the end is asynchronous: without waiting it would undo the next seek."""
    deadline = Deadline("the end of the partition")
    while (message := consumer.poll(0.2)) is None or message.error() is None:
        deadline.check()
    return message.offset()


def consume_group(bootstrap: str, group: str, topic: str, count: int) -> dict[str, Any]:
    consumer = consumer_of(bootstrap, group_id=group, session_timeout_ms=6000, heartbeat_interval_ms=500)
    try:
        consumer.subscribe([topic])
        records = _collect(consumer, count)
        ends = {record["partition"]: record["offset"] + 1 for record in records}
        consumer.commit(offsets=[TopicPartition(topic, p, o) for p, o in ends.items()], asynchronous=False)
        committed = consumer.committed(consumer.assignment(), timeout=20)
        return {"records": in_order(records), "committed": {p.partition: p.offset for p in committed}}
    finally:
        consumer.close()


def offsets_for_times(bootstrap: str, topic: str, timestamps: list[int]) -> list[Any]:
    consumer = consumer_of(bootstrap)
    try:
        asked = [[TopicPartition(topic, 0, t)] for t in timestamps]
        found = [consumer.offsets_for_times(times, timeout=20)[0].offset for times in asked]
        return [*found, *consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)]
    finally:
        consumer.close()


def topic_errors(bootstrap: str, topic: str, missing: str) -> dict[str, Any]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    consumer = consumer_of(bootstrap)

    def first(futures: dict[Any, Any]) -> str:
        return _outcome(next(iter(futures.values())).result)

    try:
        return {
            "delete missing": first(admin.delete_topics([missing])),
            "create existing": first(admin.create_topics([NewTopic(topic, 1)])),
            "create bad name": first(admin.create_topics([NewTopic("no/such name", 1)])),
            "create 3 replicas": first(admin.create_topics([NewTopic(missing, 1, 3)])),
            "fewer partitions": first(admin.create_partitions([NewPartitions(topic, 1)])),
            "offsets of a missing partition": _outcome(
                lambda: consumer.get_watermark_offsets(TopicPartition(topic, 99), timeout=10)
            ),
            "still missing": missing not in admin.list_topics(timeout=20).topics,
            "produce to a bad name": produce(bootstrap, "no/such name", [Record(b"x")]),
            "produce to a missing partition": produce(bootstrap, topic, [Record(b"x", partition=99)]),
        }
    finally:
        consumer.close()


def _outcome(action: Callable[[], object]) -> str:
    try:
        action()
    except KafkaException as error:
        return _name(error)
    return "done"


def configs(bootstrap: str, topic: str) -> dict[str, Any]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def described(kind: ResourceType, name: str) -> dict[str, Any]:
        (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
        return {key: _entry(entry) for key, entry in sorted(future.result().items())}

    def alter(name: str, value: str | None, operation: AlterConfigOpType) -> str:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        (future,) = admin.incremental_alter_configs([resource]).values()
        return _outcome(future.result)

    def settled(segment_bytes: str) -> dict[str, Any]:
        once(lambda: described(ResourceType.TOPIC, topic)["segment.bytes"][0] == segment_bytes)
        return described(ResourceType.TOPIC, topic)["segment.bytes"]

    return {
        "at first": described(ResourceType.TOPIC, topic),
        "set": alter("segment.bytes", "2000000", AlterConfigOpType.SET),
        "after set": settled("2000000"),
        "bad value": alter("cleanup.policy", "shred", AlterConfigOpType.SET),
        "unknown name": alter("no.such.config", "1", AlterConfigOpType.SET),
        "delete": alter("segment.bytes", None, AlterConfigOpType.DELETE),
        "after delete": settled("1073741824"),
        "describe missing": _outcome(lambda: described(ResourceType.TOPIC, "no-such-topic")),
    }


def _entry(entry: ConfigEntry) -> list[Any]:
    return [entry.value, entry.source, entry.is_read_only, entry.is_default, entry.is_sensitive]


def run_member(
    bootstrap: str,
    group: str,
    topic: str,
    session_ms: int,
    emit: Callable[[dict[str, Any]], None],
    stop: threading.Event,
) -> None:
    consumer = consumer_of(
        bootstrap,
        group_id=group,
        enable_auto_commit=True,
        auto_commit_interval_ms=200,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        error_cb=lambda error: emit({"trouble": error.name()}),
    )
    consumer.subscribe(
        [topic],
        on_assign=lambda _, partitions: emit({"assigned": sorted(p.partition for p in partitions)}),
        on_revoke=lambda _, __: emit({"assigned": []}),
    )
    follow(consumer, emit, stop)


def follow(consumer: Consumer, emit: Callable[[dict[str, Any]], None], stop: threading.Event) -> None:
    """Emits what a member of a group reads, and errors, until `stop`; then leaves the group."""
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            emit({"record": [message.partition(), message.offset(), message.value().decode()]})
        elif message is not None:
            emit({"trouble": message.error().name()})
    consumer.close()


def transact(
    bootstrap: str, transactional_id: str, source: str, out: str, group: str, steps: list[tuple[bytes, int, bool]]
) -> dict[str, Any]:
    """A transaction for each (value, offset, committed): the value to both partitions, the offset for the group."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 2}
    consumer = consumer_of(bootstrap, group_id=group)
    producer = Producer(settings)
    producer.init_transactions(30)
    read_from = TopicPartition(source, 0)
    offsets: list[int] = []
    try:
        for value, offset, committed in steps:
            producer.begin_transaction()
            for partition in range(2):
                producer.produce(out, value, partition=partition)
            producer.flush(30)
            taken = [TopicPartition(source, 0, offset)]
            producer.send_offsets_to_transaction(taken, consumer.consumer_group_metadata(), 30)
            (producer.commit_transaction if committed else producer.abort_transaction)(30)
            offsets.append(consumer.committed([read_from], timeout=30)[0].offset)
        successor = Producer(settings)
        successor.init_transactions(30)
        fenced = _outcome(lambda: _one_transaction(producer, out))
    finally:
        consumer.close()
    seen_by = {level: _values(bootstrap, out, level) for level in ("read_committed", "read_uncommitted")}
    return {"offsets": offsets, "fenced": fenced, **seen_by}


def _one_transaction(producer: Producer, out: str) -> None:
    producer.begin_transaction()
    producer.produce(out, b"zombie", partition=0)
    producer.commit_transaction(30)


def _values(bootstrap: str, topic: str, level: str) -> list[bytes]:
    """All values in partition 0, up to the end that the client gets."""
    consumer = consumer_of(bootstrap, enable_partition_eof=True, isolation_level=level)
    found: list[bytes] = []
    deadline = Deadline("the end of the partition")
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(0.2)) is None or message.error() is None:
            found += [] if message is None else [message.value()]
            deadline.check(found)
    finally:
        consumer.close()
    return found
