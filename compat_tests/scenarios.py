"""The scenarios that every Python client runs, written over the interface of ``compat_tests.clients``."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from compat_tests.clients import EPOCH_MS, Record
from compat_tests.comparison import CaseBook, Side
from compat_tests.frames import RawConnection, batch_headers, fetch, metadata
from compat_tests.groups import Members

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def codecs(client: ModuleType, side: Side) -> Any:
    """Every codec: records come back as sent, and the broker stores the codec that the client chose."""
    found = {}
    for codec in CODECS:
        topic = side.topic(codec)
        sent = [Record(f"{codec} {n} ".encode() * 40, timestamp_ms=EPOCH_MS + n) for n in range(20)]
        placed = client.produce(side.bootstrap, topic, sent, codec=codec)
        with RawConnection(side.bootstrap) as connection:
            stored = {b["codec"] for b in batch_headers(fetch(connection, topic)["records"])}
        records = client.read(side.bootstrap, topic, len(sent))
        found[codec] = {"placed": placed, "stored codecs": stored, "records": records}
    return found


def headers(client: ModuleType, side: Side) -> Any:
    topic = side.topic()
    variants: list[list[tuple[str, bytes | None]]] = [
        [],
        [("a", b"1")],
        [("a", b"1"), ("b", b""), ("a", b"2")],
        [("größe", bytes(range(256))), ("", b"empty name")],
    ]
    if client.__name__.endswith("librdkafka"):  # the others refuse a null header value before sending
        variants.append([("null", None), ("after", b"x")])
    sent = [Record(b"v", timestamp_ms=EPOCH_MS + n, headers=pairs) for n, pairs in enumerate(variants)]
    client.produce(side.bootstrap, topic, sent)
    return client.read(side.bootstrap, topic, len(sent))


def nulls(client: ModuleType, side: Side) -> Any:
    topic = side.topic()
    pairs = [(None, b"v"), (b"k", None), (b"", b""), (b"k", b"v"), (b"\x00\xff", b"\x00" * 3)]
    sent = [Record(value, key=key) for key, value in pairs]
    return {
        "placed": client.produce(side.bootstrap, topic, sent),
        "records": client.read(side.bootstrap, topic, len(sent)),
    }


def one_megabyte(client: ModuleType, side: Side) -> Any:
    topic = side.topic()
    noise = hashlib.shake_256(b"odradek")
    sent = [Record(noise.digest(1_000_000 + n)) for n in range(3)]
    placed = client.produce(side.bootstrap, topic, sent, max_bytes=1_100_000)
    records = client.read(side.bootstrap, topic, len(sent))
    got = [[r["offset"], len(r["value"]), hashlib.sha256(r["value"]).hexdigest()] for r in records]
    return {"placed": placed, "got": got}


def many_partitions(client: ModuleType, side: Side) -> Any:
    topic = side.topic(partitions=50)
    placed = client.produce(side.bootstrap, topic, [Record(b"p%d" % p, partition=p) for p in range(50)])
    return {"placed": placed, "records": client.read(side.bootstrap, topic, 50)}


def key_hashing(client: ModuleType, side: Side) -> Any:
    topic = side.topic(partitions=7)
    keys = [f"N{n}{'ABCDEFG'[n % 7]}".encode() for n in range(100)]
    placed = client.produce(side.bootstrap, topic, [Record(b"", key=key) for key in keys])
    by_key = {key: where[0] for key, where in zip(keys, placed, strict=True)}
    read_back = {r["key"]: r["partition"] for r in client.read(side.bootstrap, topic, len(keys))}
    return {"sent to": by_key, "read from": dict(sorted(read_back.items()))}


def seek_and_replay(client: ModuleType, side: Side) -> Any:
    topic = side.topic()
    client.produce(side.bootstrap, topic, [Record(b"%d" % n) for n in range(30)])
    steps = [10, 29, "beginning", 3, "end", 0]
    first = client.seek(side.bootstrap, topic, steps)
    client.produce(side.bootstrap, topic, [Record(b"more")])
    return {
        "steps": first,
        "replayed": client.read(side.bootstrap, topic, 11, start={0: 20}),
        "again": client.seek(side.bootstrap, topic, ["end", 30]),
    }


def broadcast(client: ModuleType, side: Side) -> Any:
    topic = side.topic(partitions=2)
    client.produce(side.bootstrap, topic, [Record(b"%d" % n, partition=n % 2) for n in range(10)])
    return [client.read(side.bootstrap, topic, 10) for _ in range(2)]


def two_groups(client: ModuleType, side: Side) -> Any:
    topic = side.topic(partitions=2)
    client.produce(side.bootstrap, topic, [Record(b"%d" % n, partition=n % 2) for n in range(10)])
    groups = [side.name(group) for group in ("first", "second")]
    found = {group: client.consume_group(side.bootstrap, group, topic, 10) for group in groups}
    client.produce(side.bootstrap, topic, [Record(b"late %d" % n, partition=n) for n in range(2)])
    return {**found, "resumed": client.consume_group(side.bootstrap, groups[0], topic, 2)}


def take_over(client: ModuleType, name: str, side: Side) -> Any:
    """Four members, three partitions: one is idle; the process of an owner is killed and the idle one takes over."""
    topic = side.topic(partitions=3)
    sent = [Record(b"before %d" % n, partition=n % 3) for n in range(30)]
    with Members(name, side.bootstrap, side.name("group"), topic) as members:
        members.start("victim", worker="doomed")
        members.wait(lambda: members.holds_all(3), "the first member to hold everything")
        alone = members.sizes()
        for other in ("b", "c", "d"):
            members.start(other)
        members.wait(lambda: members.holds_all(3) and members.sizes() == [0, 1, 1, 1], "four members to settle")
        client.produce(side.bootstrap, topic, sent)
        members.wait(lambda: len(members.values()) == 30, "the records before the kill")
        owners = members.sizes()
        members.kill("doomed")
        members.wait(lambda: members.holds_all(3) and members.sizes() == [1, 1, 1], "the take-over")
        client.produce(side.bootstrap, topic, [Record(b"after %d" % n, partition=n % 3) for n in range(30)])
        members.wait(lambda: len(members.values()) == 60, "the records after the kill")
        return {
            "alone": alone,
            "four members": owners,
            "three members": members.sizes(),
            "values": members.values(),
            "troubles": members.troubles,
        }


def concurrent_rebalances(client: ModuleType, name: str, side: Side) -> Any:
    """Members join and leave together, twice; those that stay never get UNKNOWN_MEMBER_ID.

    Those that leave are in a separate process, since a member that leaves during a rebalance may get it.
    """
    topic = side.topic(partitions=6)
    with Members(name, side.bootstrap, side.name("group"), topic, session_ms=15_000) as members:
        for member in "abcde":
            members.start(member, worker="stay" if member in "de" else "leave")
        members.wait(lambda: members.holds_all(6) and len(members.sizes()) == 5, "five members to settle")
        for leave, join in (("ab", "fg"), ("cf", "hi")):
            for member in leave:
                members.close_soon(member)
            for member in join:
                members.start(member, worker="leave" if member == "f" else "stay")
            members.wait(lambda: members.holds_all(6) and len(members.sizes()) == 5, "five members to settle again")
        client.produce(side.bootstrap, topic, [Record(b"%d" % n, partition=n % 6) for n in range(60)])
        members.wait(lambda: len(members.values()) == 60, "every record")
        said = [line for worker, line in members.logs if worker == "stay"] + members.troubles
        unknown = [line for line in said if "unknown" in line.lower() and "member" in line.lower()]
        for member in "degh":
            members.close(member)
        members.wait(lambda: members.sizes() == [6], "the last member to hold everything")
        return {"values": members.values(), "unknown member": unknown, "troubles": members.troubles}


def crash_resume(client: ModuleType, side: Side) -> Any:
    topic = side.topic()
    group = side.name("group")
    client.produce(side.bootstrap, topic, [Record(b"%d" % n) for n in range(20)])
    first = client.consume_group(side.bootstrap, group, topic, 8)
    side.crash_and_restart()
    resumed = client.consume_group(side.bootstrap, group, topic, 12)
    placed = client.produce(side.bootstrap, topic, [Record(b"after")])
    everything = client.read(side.bootstrap, topic, 21)
    return {"first": first, "resumed": resumed, "after": placed, "everything": everything}


def idempotent_retry(client: ModuleType, side: Side) -> Any:
    """An idempotent producer keeps sending while the broker is killed and restarted: everything once, in order."""
    topic = side.topic()
    sent = [Record(b"%d" % n, partition=0) for n in range(200)]
    restart = threading.Thread(target=side.broker.restart)

    def crash() -> None:
        side.broker.crash()
        restart.start()

    placed = client.produce(side.bootstrap, topic, sent, idempotent=True, during=crash)
    restart.join()
    records = client.read(side.bootstrap, topic, len(sent))
    with RawConnection(side.bootstrap) as connection:
        high_watermark = fetch(connection, topic)["high_watermark"]
        epochs = {b["producer_id"] >= 0 for b in batch_headers(fetch(connection, topic)["records"])}
    return {"placed": placed, "values": [r["value"] for r in records], "end": high_watermark, "idempotent": epochs}


def offsets_by_time(client: ModuleType, side: Side) -> Any:
    topic = side.topic()
    times = [1000, 2000, 2000, 3000, 2500, 5000]
    for time in times:  # one record per batch, so that offsets are looked up in the index and not only in the batch
        client.produce(side.bootstrap, topic, [Record(b"x", timestamp_ms=EPOCH_MS + time)])
    asked = [EPOCH_MS + t for t in (0, 1000, 1001, 2000, 2600, 3000, 4000, 5000, 5001)]
    appended = side.topic("append-time", message_timestamp_type="LogAppendTime")
    client.produce(side.bootstrap, appended, [Record(b"x", timestamp_ms=EPOCH_MS)])
    (record,) = client.read(side.bootstrap, appended, 1)
    return {
        "found": client.offsets_for_times(side.bootstrap, topic, asked),
        "records": client.read(side.bootstrap, topic, len(times)),
        "append time is the broker's": record["timestamp_ms"] > EPOCH_MS + 10_000_000,
    }


def unknown_topic(client: ModuleType, side: Side) -> Any:
    topic = side.topic(partitions=2)
    errors = client.topic_errors(side.bootstrap, topic, side.name("missing"))
    created = client.produce(side.bootstrap, side.name("made-by-producing"), [Record(b"x")])
    with RawConnection(side.bootstrap) as connection:
        auto = metadata(connection, [side.name("made-by-producing"), side.name("missing")])
    return {"errors": errors, "auto-created": created, "metadata": auto}


def oversized_record(client: ModuleType, side: Side) -> Any:
    topic = side.topic(max_message_bytes="20000")
    noise = hashlib.shake_256(b"big").digest(30_000)
    large = client.produce(side.bootstrap, topic, [Record(noise)])
    small = client.produce(side.bootstrap, topic, [Record(noise[:19_000])])
    default = side.topic("default-limit")
    beyond = client.produce(side.bootstrap, default, [Record(noise * 40)], max_bytes=3_000_000)
    return {
        "large": large,
        "small": small,
        "beyond the default": beyond,
        "kept": len(client.read(side.bootstrap, topic, 1)),
    }


def configs(client: ModuleType, side: Side) -> Any:
    topic = side.topic(retention_ms="600000", compression_type="producer")
    return client.configs(side.bootstrap, topic)


def transactions(client: ModuleType, side: Side) -> Any:
    """Consume-transform-produce by hand: two commits, two aborts, and a producer that another one fences."""
    source, out, group = side.topic("in"), side.topic("out", partitions=2), side.name("group")
    steps = [(b"a", 3, True), (b"b", 5, False), (b"c", 7, True), (b"d", 9, False)]
    return client.transact(side.bootstrap, side.name("id"), source, out, group, steps)


def add_transactions(book: CaseBook, client: ModuleType) -> None:
    """For clients with a transactional producer."""
    book.add("transactions", partial(transactions, client))


def add_all(book: CaseBook, client: ModuleType) -> None:
    """Every shared scenario under its row."""
    plain: dict[str, Callable[[ModuleType, Side], Any]] = {
        "codecs": codecs,
        "headers": headers,
        "nulls": nulls,
        "one-megabyte": one_megabyte,
        "many-partitions": many_partitions,
        "key-hashing": key_hashing,
        "seek-and-replay": seek_and_replay,
        "broadcast": broadcast,
        "two-groups": two_groups,
        "crash-resume": crash_resume,
        "idempotent-retry": idempotent_retry,
        "offsets-by-time": offsets_by_time,
        "unknown-topic": unknown_topic,
        "oversized-record": oversized_record,
        "configs": configs,
    }
    for row, scenario in plain.items():
        book.add(row, partial(scenario, client))
    for row, driven in {"take-over": take_over, "concurrent-rebalances": concurrent_rebalances}.items():
        book.add(row, partial(driven, client, book.client))
