"""aiokafka. It needs asyncio, so each operation runs in its own event loop; nothing here is product code."""

from __future__ import annotations

import asyncio  # noqa: TID251 - the client under test is asyncio's
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from compat_tests.clients import DEADLINE_S, HEARTBEAT_MS, Deadline, Record, in_order, seen
from compat_tests.error_names import error_name


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


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
    return _run(_produce(bootstrap, topic, records, codec, bool(idempotent), max_bytes, during))


async def _produce(
    bootstrap: str,
    topic: str,
    records: list[Record],
    codec: str,
    idempotent: bool,
    max_bytes: int,
    during: Callable[[], None],
) -> list[Any]:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        # in a cluster, a record with acks=1 may not be readable yet when it is acknowledged
        acks="all" if "," in bootstrap or idempotent else 1,
        max_request_size=max_bytes,
        max_batch_size=max(16_384, max_bytes),
        request_timeout_ms=int(DEADLINE_S * 1000),
        linger_ms=5,
    )
    await producer.start()
    try:
        half = len(records) // 2
        first = [await _placed(sent) for sent in [await _send(producer, topic, r) for r in records[:half]]]
        await asyncio.to_thread(during)
        return first + [await _placed(sent) for sent in [await _send(producer, topic, r) for r in records[half:]]]
    finally:
        await producer.stop()


async def _send(producer: AIOKafkaProducer, topic: str, record: Record) -> Any:
    try:
        return await producer.send(
            topic,
            value=record.value,
            key=record.key,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
            headers=record.headers,
        )
    except (KafkaError, ValueError, AssertionError) as error:
        return error


async def _placed(sent: Any) -> Any:
    if isinstance(sent, BaseException):
        return _name(sent)
    try:
        metadata = await asyncio.wait_for(sent, DEADLINE_S)
    except KafkaError as error:
        return _name(error)
    return [metadata.partition, metadata.offset]


def _consumer(bootstrap: str, *topics: str, **extra: Any) -> AIOKafkaConsumer:
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50, **extra}
    return AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **settings)


async def _collect(consumer: AIOKafkaConsumer, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    deadline = Deadline(f"{count} records")
    while len(found) < count:
        polled = await consumer.getmany(timeout_ms=200, max_records=count - len(found))
        for batch in polled.values():
            found += [seen(r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in batch]
        deadline.check(len(found))
    return found


async def _partitions(consumer: AIOKafkaConsumer, topic: str) -> list[TopicPartition]:
    """The partitions of a topic, once a metadata update has them."""
    deadline = Deadline(f"metadata of {topic}", 15)
    while not (found := consumer.partitions_for_topic(topic)):
        await consumer._client.force_metadata_update()  # noqa: SLF001 - aiokafka has no public way
        deadline.check()
    return [TopicPartition(topic, p) for p in sorted(found)]


def read(bootstrap: str, topic: str, count: int, *, start: dict[int, int] | None = None) -> list[dict[str, Any]]:
    async def work() -> list[dict[str, Any]]:
        async with _consumer(bootstrap) as consumer:
            consumer._client.add_topic(topic)  # noqa: SLF001 - aiokafka has no public way
            consumer.assign(await _partitions(consumer, topic))
            for partition, offset in (start or {}).items():
                consumer.seek(TopicPartition(topic, partition), offset)
            return in_order(await _collect(consumer, count))

    return _run(work())


def seek(bootstrap: str, topic: str, steps: list[int | str]) -> list[Any]:
    async def work() -> list[Any]:
        partition = TopicPartition(topic, 0)
        found: list[Any] = []
        async with _consumer(bootstrap) as consumer:
            consumer.assign([partition])
            for step in steps:
                if step == "beginning":
                    await consumer.seek_to_beginning(partition)
                elif step == "end":
                    await consumer.seek_to_end(partition)
                else:
                    consumer.seek(partition, int(step))
                position = await consumer.position(partition)
                next_offset = None if step == "end" else (await _collect(consumer, 1))[0]["offset"]
                found.append({"step": step, "position": position, "read": next_offset})
        return found

    return _run(work())


def consume_group(bootstrap: str, group: str, topic: str, count: int) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        times = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
        async with _consumer(bootstrap, topic, group_id=group, **times) as consumer:
            records = await _collect(consumer, count)
            await consumer.commit()
            committed = {p.partition: await consumer.committed(p) for p in sorted(consumer.assignment())}
            return {"records": in_order(records), "committed": committed}

    return _run(work())


def offsets_for_times(bootstrap: str, topic: str, timestamps: list[int]) -> list[Any]:
    async def work() -> list[Any]:
        partition = TopicPartition(topic, 0)
        async with _consumer(bootstrap) as consumer:
            consumer.assign([partition])
            found = [(await consumer.offsets_for_times({partition: t}))[partition] for t in timestamps]
            first = (await consumer.beginning_offsets([partition]))[partition]
            last = (await consumer.end_offsets([partition]))[partition]
            return [[f.offset, f.timestamp] if f else None for f in found] + [first, last]

    return _run(work())


def topic_errors(bootstrap: str, topic: str, missing: str) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            described = await admin.describe_topics([missing])
            return {
                "describe missing": [error_name(t["error_code"]) for t in described],
                "delete missing": _codes(await admin.delete_topics([missing]), "topic_error_codes"),
                "create existing": _codes(await admin.create_topics([NewTopic(topic, 1, 1)]), "topic_errors"),
                "create bad name": _codes(await admin.create_topics([NewTopic("no/such name", 1, 1)]), "topic_errors"),
                "create 3 replicas": _codes(await admin.create_topics([NewTopic(missing, 1, 3)]), "topic_errors"),
                "fewer partitions": await _outcome(admin.create_partitions({topic: NewPartitions(1)})),
                "still missing": missing not in await admin.list_topics(),
            }
        finally:
            await admin.close()

    return {**_run(work()), "produce to a missing partition": produce(bootstrap, topic, [Record(b"x", partition=99)])}


async def _outcome(work: Coroutine[Any, Any, Any]) -> str:
    try:
        await work
    except KafkaError as error:
        return _name(error)
    return "done"


def _codes(response: Any, field: str) -> list[str]:
    return [error_name(entry[1]) for entry in getattr(response, field)]


def configs(bootstrap: str, topic: str) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)

        async def described() -> dict[str, Any]:
            (response,) = await admin.describe_configs([resource])
            ((error, _, _, name, entries),) = response.resources
            found = {entry[0]: list(entry[1:5]) for entry in entries}
            return {"error": error_name(error), "name": name, "entries": dict(sorted(found.items()))}

        try:
            change = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "777777"})
            first = await described()
            (altered,) = await admin.alter_configs([change])
            deadline = Deadline("the altered config", 15)
            while (await described())["entries"]["retention.ms"][0] != "777777":
                deadline.check()
            return {"at first": first, "alter": error_name(altered.resources[0][0]), "after": await described()}
        finally:
            await admin.close()

    return _run(work())


class _Listener(ConsumerRebalanceListener):
    def __init__(self, emit: Callable[[dict[str, Any]], None]) -> None:
        self._emit = emit

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if revoked:
            self._emit({"assigned": []})

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._emit({"assigned": sorted(p.partition for p in assigned)})


def run_member(
    bootstrap: str,
    group: str,
    topic: str,
    session_ms: int,
    emit: Callable[[dict[str, Any]], None],
    stop: threading.Event,
) -> None:
    async def work() -> None:
        consumer = _consumer(
            bootstrap,
            group_id=group,
            enable_auto_commit=True,
            auto_commit_interval_ms=200,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        consumer.subscribe([topic], listener=_Listener(emit))
        await consumer.start()
        while not stop.is_set():
            for batch in (await consumer.getmany(timeout_ms=100)).values():
                for record in batch:
                    emit({"record": [record.partition, record.offset, record.value.decode()]})
        await consumer.stop()

    _run(work())


def transact(
    bootstrap: str, transactional_id: str, source: str, out: str, group: str, steps: list[tuple[bytes, int, bool]]
) -> dict[str, Any]:
    """A transaction for each (value, offset, committed): the value to both partitions, the offset for the group."""
    return _run(_transact(bootstrap, transactional_id, source, out, group, steps))


async def _transact(
    bootstrap: str, transactional_id: str, source: str, out: str, group: str, steps: list[tuple[bytes, int, bool]]
) -> dict[str, Any]:
    read_from = TopicPartition(source, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    producer, successor = (
        AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id) for _ in range(2)
    )
    offsets: list[Any] = []
    await consumer.start()
    await producer.start()
    try:
        for value, offset, committed in steps:
            await producer.begin_transaction()
            for partition in range(2):
                await producer.send_and_wait(out, value, partition=partition)
            await producer.send_offsets_to_transaction({read_from: offset}, group)
            await (producer.commit_transaction() if committed else producer.abort_transaction())
            deadline = Deadline("the offset, whose marker may come after the end's answer")
            while (found := await consumer.committed(read_from)) != offset and committed:
                deadline.check(found)
            offsets.append(found)
        await successor.start()
        fenced = await _fenced(producer, out)
    finally:
        await successor.stop()
        await producer.stop()
        await consumer.stop()
    levels = ("read_committed", "read_uncommitted")
    return {"offsets": offsets, "fenced": fenced, **{level: await _values(bootstrap, out, level) for level in levels}}


async def _fenced(producer: AIOKafkaProducer, out: str) -> str:
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(out, b"zombie", partition=0)
        await producer.commit_transaction()
    except KafkaError as error:
        return _name(error)
    return "NONE"


async def _values(bootstrap: str, topic: str, level: str) -> list[bytes | None]:
    """All values in partition 0, up to its end."""
    partition = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level)
    await consumer.start()
    found: list[bytes | None] = []
    deadline = Deadline("the end of the partition")
    try:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for batch in (await consumer.getmany(timeout_ms=200)).values():
                found += [record.value for record in batch]
            deadline.check(found)
    finally:
        await consumer.stop()
    return found
