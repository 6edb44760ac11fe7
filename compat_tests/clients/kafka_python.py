"""kafka-python, pure Python."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from compat_tests.clients import DEADLINE_S, HEARTBEAT_MS, Deadline, Record, in_order, once, seen

# kafka-python 3.0.12 loses its assignment, and polls in vain from then on, if the answer to SyncGroup comes just after
# a poll has timed out. So polls are long; they return as soon as there are records.
POLL_MS = 5000
MEMBER_POLL_MS = 1000  # also bounds the time until a member notices a request to close


def _name(error: BaseException) -> str:
    return type(error).__name__


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
    extra: dict[str, Any] = {} if idempotent is None else {"enable_idempotence": idempotent}
    compression = None if codec == "none" else codec
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=compression,
        max_request_size=max_bytes,
        max_block_ms=20_000,
        **extra,
    )
    try:
        half = len(records) // 2
        first = [_placed(f) for f in [_send(producer, topic, record) for record in records[:half]]]
        during()
        return first + [_placed(f) for f in [_send(producer, topic, record) for record in records[half:]]]
    finally:
        producer.close(timeout=20)


def _send(producer: KafkaProducer, topic: str, record: Record) -> Any:
    try:
        return producer.send(
            topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
            headers=record.headers,
        )
    except (KafkaError, ValueError, AssertionError) as error:
        return error


def _placed(future: Any) -> Any:
    if isinstance(future, BaseException):
        return _name(future)
    try:
        metadata = future.get(timeout=DEADLINE_S)
    except KafkaError as error:
        return _name(error)
    return [metadata.partition, metadata.offset]


def _consumer(bootstrap: str, **extra: Any) -> KafkaConsumer:
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50, **extra}
    return KafkaConsumer(bootstrap_servers=bootstrap, **settings)


def _collect(consumer: KafkaConsumer, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    deadline = Deadline(f"{count} records")
    while len(found) < count:
        for batch in consumer.poll(timeout_ms=POLL_MS, max_records=count - len(found)).values():
            found += [seen(r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in batch]
        deadline.check(len(found))
    return found


def read(bootstrap: str, topic: str, count: int, *, start: dict[int, int] | None = None) -> list[dict[str, Any]]:
    consumer = _consumer(bootstrap)
    try:
        partitions = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(partitions)
        for partition, offset in (start or {}).items():
            consumer.seek(TopicPartition(topic, partition), offset)
        return in_order(_collect(consumer, count))
    finally:
        consumer.close()


def seek(bootstrap: str, topic: str, steps: list[int | str]) -> list[Any]:
    consumer = _consumer(bootstrap, max_poll_records=1)
    partition = TopicPartition(topic, 0)
    found: list[Any] = []
    try:
        consumer.assign([partition])
        for step in steps:
            if step == "beginning":
                consumer.seek_to_beginning(partition)
            elif step == "end":
                consumer.seek_to_end(partition)
            else:
                consumer.seek(partition, int(step))
            position = consumer.position(partition)
            next_offset = None if step == "end" else _collect(consumer, 1)[0]["offset"]
            found.append({"step": step, "position": position, "read": next_offset})
    finally:
        consumer.close()
    return found


def consume_group(bootstrap: str, group: str, topic: str, count: int) -> dict[str, Any]:
    consumer = _consumer(bootstrap, group_id=group, session_timeout_ms=6000, heartbeat_interval_ms=500)
    try:
        consumer.subscribe([topic])
        records = _collect(consumer, count)
        consumer.commit()
        committed = {p.partition: consumer.committed(p) for p in sorted(consumer.assignment())}
        return {"records": in_order(records), "committed": committed}
    finally:
        consumer.close(autocommit=False)


def commit_with_metadata(bootstrap: str, group: str, topic: str, offset: int, note: str) -> Any:
    """Commits an offset with metadata outside of any generation, and reads both back."""
    consumer = _consumer(bootstrap, group_id=group)
    partition = TopicPartition(topic, 0)
    try:
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(offset, note, -1)})
        found = consumer.committed(partition, metadata=True)
        return [found.offset, found.metadata]
    finally:
        consumer.close()


def offsets_for_times(bootstrap: str, topic: str, timestamps: list[int]) -> list[Any]:
    consumer = _consumer(bootstrap)
    partition = TopicPartition(topic, 0)
    try:
        consumer.assign([partition])
        found = [consumer.offsets_for_times({partition: t})[partition] for t in timestamps]
        ends = [consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]]
        return [[f.offset, f.timestamp] if f else None for f in found] + ends
    finally:
        consumer.close()


def topic_errors(bootstrap: str, topic: str, missing: str) -> dict[str, Any]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    consumer = _consumer(bootstrap)
    try:
        described = [t["error_code"] for t in admin.describe_topics([missing])]
        return {
            "describe missing": described,
            "delete missing": _outcome(lambda: admin.delete_topics([missing])),
            "create existing": _outcome(lambda: admin.create_topics({topic: {"num_partitions": 1}})),
            "create bad name": _outcome(lambda: admin.create_topics({"no/such name": {"num_partitions": 1}})),
            "create 0 partitions": _outcome(lambda: admin.create_topics({missing: {"num_partitions": 0}})),
            "create 3 replicas": _outcome(lambda: admin.create_topics({missing: {"replication_factor": 3}})),
            "fewer partitions": _outcome(lambda: admin.create_partitions({topic: 1})),
            "offsets of a missing partition": _outcome(
                lambda: consumer.end_offsets([TopicPartition(topic, 99)], timeout_ms=1500)
            ),
            "still missing": missing not in admin.list_topics(),
            "produce to a bad name": produce(bootstrap, "no/such name", [Record(b"x")]),
        }
    finally:
        consumer.close()
        admin.close()


def _outcome(action: Callable[[], object]) -> str:
    try:
        action()
    except (KafkaError, ValueError) as error:
        return _name(error)
    return "done"


def configs(bootstrap: str, topic: str) -> dict[str, Any]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)

    def described() -> dict[str, Any]:
        found = admin.describe_configs([resource], config_filter="all")["topic"][topic]
        return {name: _described(entry) for name, entry in sorted(found.items())}

    def alter(**settings: Any) -> str:
        change = ConfigResource(ConfigResourceType.TOPIC, topic, {k.replace("_", "."): v for k, v in settings.items()})
        return _outcome(lambda: admin.alter_configs([change]))

    def settled(retention: str) -> dict[str, Any]:
        once(lambda: described()["retention.ms"]["value"] == retention)
        return described()

    try:
        return {
            "at first": described(),
            "set": alter(retention_ms=("SET", "123456"), cleanup_policy=("APPEND", "compact")),
            "after set": settled("123456"),
            "bad value": alter(retention_ms=("SET", "soon")),
            "unknown name": alter(no_such_config=("SET", "1")),
            "delete": alter(retention_ms=("DELETE", None), cleanup_policy=("SUBTRACT", "compact")),
            "after delete": {k: v for k, v in settled("-1").items() if k in {"retention.ms", "cleanup.policy"}},
        }
    finally:
        admin.close()


def _described(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: str(value) for key, value in entry.items() if key not in {"documentation", "synonyms"}}


def run_member(
    bootstrap: str,
    group: str,
    topic: str,
    session_ms: int,
    emit: Callable[[dict[str, Any]], None],
    stop: threading.Event,
) -> None:
    consumer = _consumer(
        bootstrap,
        group_id=group,
        enable_auto_commit=True,
        auto_commit_interval_ms=200,
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([topic])
    last: list[int] | None = None
    while not stop.is_set():
        polled = consumer.poll(timeout_ms=MEMBER_POLL_MS)
        assigned = sorted(p.partition for p in consumer.assignment())
        if assigned != last:
            emit({"assigned": assigned})
            last = assigned
        for batch in polled.values():
            for record in batch:
                emit({"record": [record.partition, record.offset, record.value.decode()]})
    consumer.close()


def transact(
    bootstrap: str, transactional_id: str, source: str, out: str, group: str, steps: list[tuple[bytes, int, bool]]
) -> dict[str, Any]:
    """A transaction for each (value, offset, committed): the value to both partitions, the offset for the group."""
    read_from = TopicPartition(source, 0)
    consumer = _consumer(bootstrap, group_id=group)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    offsets: list[Any] = []
    try:
        producer.init_transactions()
        for value, offset, committed in steps:
            producer.begin_transaction()
            for sent in [producer.send(out, value=value, partition=partition) for partition in range(2)]:
                sent.get(timeout=DEADLINE_S)
            producer.send_offsets_to_transaction({read_from: OffsetAndMetadata(offset, "", -1)}, group)
            (producer.commit_transaction if committed else producer.abort_transaction)()
            deadline = Deadline("the offset, whose marker may come after the end's answer")
            while (found := consumer.committed(read_from)) != offset and committed:
                deadline.check(found)
            offsets.append(found)
        successor = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        successor.init_transactions()
        successor.close(timeout=20)
    finally:
        producer.close(timeout=20)
        consumer.close()
    seen_by = {level: _values(bootstrap, out, level) for level in ("read_committed", "read_uncommitted")}
    return {"offsets": offsets, **seen_by}


def _values(bootstrap: str, topic: str, level: str) -> list[bytes]:
    """All values in partition 0, up to its end."""
    consumer = _consumer(bootstrap, isolation_level=level)
    partition = TopicPartition(topic, 0)
    found: list[bytes] = []
    deadline = Deadline("the end of the partition")
    try:
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        while (consumer.position(partition) or 0) < end:
            for batch in consumer.poll(timeout_ms=200).values():
                found += [record.value for record in batch]
            deadline.check(found)
    finally:
        consumer.close()
    return found
