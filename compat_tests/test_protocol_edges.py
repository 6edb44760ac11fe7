"""Behaviour that needs raw frames: broken batches, identical retries, unknown versions, simultaneous rebalances."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from compat_tests import frames
from compat_tests.clients import EPOCH_MS
from compat_tests.comparison import Case, CaseBook, Comparison, Side
from compat_tests.error_names import error_name
from compat_tests.frames import Batch, Body, RawConnection, batch_headers, fetch, metadata, produce
from compat_tests.processes import wait_for
from compat_tests.raw_groups import RawMember, find_coordinator

BOOK = CaseBook("raw-frames")


def producer_id(connection: RawConnection) -> tuple[int, int]:
    """InitProducerId 0 without a transactional id: a new id and its epoch."""
    while True:
        reader = connection.call(frames.INIT_PRODUCER_ID, 0, Body().string(None).put("i", 60_000))
        _, error, identity, epoch = reader.take("ihqh")
        if error_name(error) != "COORDINATOR_LOAD_IN_PROGRESS":  # it fetches a block of ids
            assert error == 0, error_name(error)
            return identity, epoch


def _values(count: int, tag: bytes = b"v") -> list[bytes]:
    return [tag + b"%d" % n for n in range(count)]


def _stored(connection: RawConnection, topic: str) -> list[dict[str, Any]]:
    """The stored batches, without the producer id, which differs from broker to broker."""
    return [
        {key: value for key, value in header.items() if key != "producer_id"}
        for header in batch_headers(fetch(connection, topic)["records"])
    ]


@BOOK.case("idempotent-retry")
def idempotent_retry(side: Side) -> Any:
    """The same batch again is answered with its first offset; gaps, old epochs and the sixth-last batch are not."""
    topic = side.topic()
    with RawConnection(side.bootstrap) as connection:
        identity, epoch = producer_id(connection)

        def send(sequence: int, count: int = 3, *, epoch: int = epoch, identity: int = identity) -> Any:
            batch = Batch(_values(count), producer_id=identity, producer_epoch=epoch, sequence=sequence)
            return produce(connection, topic, batch.encode())

        found = {
            "first": send(0),
            "second": send(3),
            "second again": send(3),
            "first again": send(0),
            "gap": send(9),
            "overlap": send(4),
            "next after refusals": send(6),
            "more": [send(9 + 3 * n) for n in range(4)],
            "older than five": send(0),
            "new epoch, sequence 5": send(5, epoch=epoch + 1),
            "new epoch, sequence 0": send(0, epoch=epoch + 1),
            "old epoch": send(21, epoch=epoch),
            "unknown producer, sequence 7": send(7, identity=identity + 1000),
        }
        return {**found, "stored": _stored(connection, topic)}


@BOOK.case("idempotent-retry", name="retry-after-crash")
def retry_after_crash(side: Side) -> Any:
    """A batch whose acknowledgement was lost in a crash is recognised by the restarted broker."""
    written_ms = int(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - of a client
    return {"now": _retried(side, "now", written_ms), "long ago": _retried(side, "long-ago", EPOCH_MS)}


def _retried(side: Side, what: str, timestamp_ms: int) -> Any:
    topic = side.topic(what)
    with RawConnection(side.bootstrap) as connection:
        identity, epoch = producer_id(connection)
        batches = [
            Batch(_values(3), timestamp_ms, producer_id=identity, producer_epoch=epoch, sequence=3 * n).encode()
            for n in range(3)
        ]
        first = [produce(connection, topic, batch) for batch in batches[:2]]
    side.crash_and_restart()
    with RawConnection(side.bootstrap) as connection:
        again = [produce(connection, topic, batch) for batch in batches]
        fresh, _ = producer_id(connection)
        for answer in again:  # a duplicate is answered with the time of the stored batch
            answer["append_time"] = answer["append_time"] - timestamp_ms if answer["append_time"] > 0 else "none"
        return {"first": first, "again": again, "ids differ": fresh != identity, "stored": _stored(connection, topic)}


@BOOK.case("idempotent-retry", name="sequence-wraps")
def sequence_wraps(side: Side) -> Any:
    """After 2147483647 comes 0, also inside one batch."""
    topic = side.topic()
    with RawConnection(side.bootstrap) as connection:
        identity, epoch = producer_id(connection)
        found = []
        for sequence in (2**31 - 5, 2**31 - 2, 1, 1):
            batch = Batch(_values(3), producer_id=identity, producer_epoch=epoch, sequence=sequence)
            found.append(produce(connection, topic, batch.encode()))
        return found


def _patched(batch: bytes, at: int, layout: str, value: int, *, fix_crc: bool = False) -> bytes:
    raw = bytearray(batch)
    struct.pack_into(">" + layout, raw, at, value)
    if fix_crc:
        from kafka.record.util import calc_crc32c

        struct.pack_into(">I", raw, 17, calc_crc32c(bytes(raw[21:])))
    return bytes(raw)


def broken_batches() -> dict[str, bytes | None]:
    """Record sets that a broker must refuse, and some that it must accept."""
    good = Batch(_values(3)).encode()
    return {
        "good": good,
        "crc flipped": _patched(good, 17, "I", struct.unpack_from(">I", good, 17)[0] ^ 1),
        "payload flipped": good[:-1] + bytes([good[-1] ^ 1]),
        "magic 3": _patched(good, 16, "b", 3),
        "magic -1": _patched(good, 16, "b", -1),
        "one byte short": good[:-1],
        "header only": good[:61],
        "half a header": good[:30],
        "trailing bytes": good + b"\0" * 5,
        "two batches": good + good,
        "empty": b"",
        "null": None,
        "length 0": _patched(good, 8, "i", 0),
        "length negative": _patched(good, 8, "i", -7),
        "length huge": _patched(good, 8, "i", 2**31 - 1),
        "count 0": _patched(good, 57, "i", 0, fix_crc=True),
        "count negative": _patched(good, 57, "i", -1, fix_crc=True),
        "count too large": _patched(good, 57, "i", 4, fix_crc=True),
        "delta too large": _patched(good, 23, "i", 9, fix_crc=True),
        "delta negative": _patched(good, 23, "i", -1, fix_crc=True),
        "control batch": _patched(good, 21, "h", 0x20, fix_crc=True),
        "transactional without id": _patched(good, 21, "h", 0x10, fix_crc=True),
        "sequence without id": Batch(_values(2), sequence=4).encode(),
        "id without sequence": Batch(_values(2), producer_id=4000, producer_epoch=0, sequence=-1).encode(),
        "base offset 77": _patched(good, 0, "q", 77),
        "leader epoch 9": _patched(good, 12, "i", 9),
        "codec 6": _patched(good, 21, "h", 6, fix_crc=True),
        "far future": Batch(_values(1), timestamp_ms=EPOCH_MS * 3).encode(),
        "timestamp -1": Batch(_values(1), timestamp_ms=-1).encode(),
    }


@BOOK.case("bad-crc")
def bad_crc(side: Side) -> Any:
    """Each broken batch gets Kafka's error or a closed connection, and the topic stays usable."""
    topic = side.topic()
    found = {name: _produced(side, topic, records) for name, records in broken_batches().items()}
    with RawConnection(side.bootstrap) as connection:
        return {
            **found,
            "after": produce(connection, topic, Batch([b"fine"]).encode()),
            "stored": _stored(connection, topic),
        }


def _produced(side: Side, topic: str, records: bytes | None, **options: Any) -> Any:
    with RawConnection(side.bootstrap, timeout_s=4) as connection:
        try:
            return produce(connection, topic, records, **options)
        except ConnectionError:
            return "closed"
        except TimeoutError:
            return "silent"


@BOOK.case("bad-crc", name="rules-of-produce")
def rules_of_produce(side: Side) -> Any:
    """acks, compacted topics, zstd in an old version, codecs, and acks=0, which is never answered."""
    topic, compacted = side.topic(), side.topic("compacted", cleanup_policy="compact")
    good = Batch(_values(2)).encode()
    found = {
        "acks 1": _produced(side, topic, good, acks=1),
        "acks 2": _produced(side, topic, good, acks=2),
        "acks -2": _produced(side, topic, good, acks=-2),
        "no key, compacted": _produced(side, compacted, good),
        "missing partition": _produced(side, topic, good, partition=5),
        "negative partition": _produced(side, topic, good, partition=-1),
        "version 3": _produced(side, topic, good, version=3),
        "zstd in version 3": _produced(side, topic, Batch([b"z" * 500], codec=4).encode(), version=3),
        "zstd in version 7": _produced(side, topic, Batch([b"z" * 500], codec=4).encode(), version=7),
    }
    return {**found, **_without_acknowledgement(side, topic, good)}


def _without_acknowledgement(side: Side, topic: str, good: bytes) -> dict[str, Any]:
    def request(partition: int) -> Body:
        body = Body().string(None).put("hi", 0, 1000).put("i", 1).string(topic)
        return body.put("ii", 1, partition).blob(good)

    with RawConnection(side.bootstrap) as connection:
        connection.send(frames.PRODUCE, 7, request(0))
        answered = metadata(connection, [topic])[topic]["error"]  # the next answer belongs to this request
    with RawConnection(side.bootstrap) as connection:
        connection.send(frames.PRODUCE, 7, request(44))
        closed = connection.is_closed_by_peer()
    return {"acks 0, then metadata": answered, "acks 0 with an error closes": closed}


@BOOK.case("oversized-record")
def oversized(side: Side) -> Any:
    """The limit applies to the whole batch; a fetch with too small a limit still gets its first batch."""
    topic = side.topic(max_message_bytes="2000")
    with RawConnection(side.bootstrap) as connection:
        sizes = {}
        for size in (1000, 1900, 2000, 5000):
            sizes[size] = produce(connection, topic, Batch([b"x" * size]).encode())
        limit = 2000 - len(Batch([b""]).encode())
        exact = [produce(connection, topic, Batch([b"x" * (limit - 2 + n)]).encode()) for n in range(4)]
        tiny = fetch(connection, topic, max_bytes=10)
        return {
            "sizes": sizes,
            "around the limit": exact,
            "tiny fetch": [tiny["error"], len(tiny["records"]), batch_headers(tiny["records"])],
        }


@BOOK.case("offsets-by-time")
def offsets_by_time(side: Side) -> Any:
    topic = side.topic()
    with RawConnection(side.bootstrap) as connection:
        for n, times in enumerate([(1000, 3), (5000, 1), (3000, 2)]):
            batch = Batch(_values(times[1]), timestamp_ms=EPOCH_MS + times[0])
            produce(connection, topic, batch.encode())
            assert n < 3
        asked = [-1, -2, *(EPOCH_MS + t for t in (0, 1000, 1001, 1002, 1003, 3000, 3001, 5000, 5001))]
        found = {when: _list_offset(connection, topic, when) for when in asked}
        old = {when: _list_offset(connection, topic, when, version=2) for when in (-1, -2)}
        return {"v1": found, "v2": old, "missing partition": _list_offset(connection, topic, -1, partition=3)}


def _list_offset(connection: RawConnection, topic: str, when: int, *, partition: int = 0, version: int = 1) -> Any:
    body = Body().put("i", -1).put("b" if version == 2 else "", *([0] if version == 2 else []))
    body.put("i", 1).string(topic).put("iiq", 1, partition, when)
    reader = connection.call(frames.LIST_OFFSETS, version, body)
    if version == 2:
        reader.one("i")
    reader.one("i")
    reader.string()
    _, _, error, timestamp, offset = reader.take("iihqq")
    return [error_name(error), timestamp, offset]


@BOOK.case("unknown-topic")
def unknown_topic(side: Side) -> Any:
    topic, missing = side.topic(), side.name("missing")
    bad = ["no/such", "", ".", "..", "x" * 250, "späßig", "__consumer_offsets"]
    with RawConnection(side.bootstrap) as connection:
        produce(connection, topic, Batch(_values(3)).encode())
        listed = {name: metadata(connection, [name]).get(name, {}).get("error") for name in [missing, *bad[:-1]]}
        fetched = {
            "missing topic": fetch(connection, missing),
            "missing partition": fetch(connection, topic, partition=7),
            "beyond the end": fetch(connection, topic, offset=99),
            "negative offset": fetch(connection, topic, offset=-5),
            "at the end": fetch(connection, topic, offset=3),
        }
        return {
            "metadata": listed,
            "fetch": {name: [f["error"], f["high_watermark"], len(f["records"])] for name, f in fetched.items()},
            "list offsets": _list_offset(connection, missing, -1),
            "produce": _produced(side, missing, Batch(_values(1)).encode()),
            "create": {name: frames.create_topic(side.bootstrap, name) for name in bad[:-1]},
            "create with configs": {
                f"{key}={value}": frames.create_topic(side.bootstrap, side.name("refused"), 1, {key: value})
                for key, value in (("no.such", "1"), ("retention.ms", "x"), ("cleanup.policy", "shred"))
            },
            "create with 0 partitions": frames.create_topic(side.bootstrap, side.name("refused"), 0),
            "create with 9 replicas": frames.create_topic(side.bootstrap, side.name("refused"), 1, replicas=9),
            "colliding name": frames.create_topic(side.bootstrap, topic.replace(".", "_")),
        }


@BOOK.case("concurrent-rebalances")
def concurrent_rebalances(side: Side) -> Any:
    """Eight members; half of them leave and four more join during the rebalance."""
    group = side.name("group")
    members = [RawMember(side.bootstrap, group) for _ in range(8)]
    for member in members:
        member.start()
    _settle(members, 8)
    joining = [RawMember(side.bootstrap, group) for _ in range(4)]
    for leaver, joiner in zip(members[:4], joining, strict=True):
        leaver.leave()
        joiner.start()
    remaining = members[4:] + joining
    _settle(remaining, 8)
    for member in remaining:
        member.leave()
    for member in members + joining:
        member.join(timeout=40)
        assert not member.is_alive()
        assert member.failure is None, member.failure
    rightful = {"heartbeat: REBALANCE_IN_PROGRESS", "sync: REBALANCE_IN_PROGRESS", "join: MEMBER_ID_REQUIRED"}
    return {"wrongful errors": {name for member in members + joining for name in member.errors} - rightful}


def _settle(members: list[RawMember], count: int) -> None:
    def settled() -> bool:
        failed = [m.failure for m in members if m.failure is not None]
        assert not failed, failed
        generations = {m.stable_at for m in members if m.stable_at == m.generation and m.stable_at > 0}
        return len(generations) == 1 and sum(m.stable_at in generations for m in members) == count

    wait_for(settled, f"{count} members in one generation")


@BOOK.case("concurrent-rebalances", name="rules-of-groups")
def rules_of_groups(side: Side) -> Any:
    """Errors for members that are unknown, late, mismatched or without a session timeout in bounds."""
    group, topic = side.name("group"), side.topic()
    with RawConnection(side.bootstrap) as connection:
        found = {
            "coordinator": find_coordinator(connection, group),
            "coordinator of nothing": find_coordinator(connection, ""),
            "heartbeat of a stranger": _simple(connection, frames.HEARTBEAT, 1, group, 1, "nobody"),
            "leave of a stranger": _leave(connection, group, "nobody"),
            "sync of a stranger": _sync(connection, group, 1, "nobody"),
            "join as a stranger": _join(connection, group, "nobody"),
            "session too short": _join(connection, group, "", session_ms=10),
            "session too long": _join(connection, group, "", session_ms=10**9),
            "empty group id": _join(connection, "", ""),
            "no protocols": _join(connection, group, "", protocols=()),
            "commit without a group": _commit(connection, group, -1, "", topic, 0),
            "commit to a missing partition": _commit(connection, group, -1, "", topic, 9),
            "commit of a stranger": _commit(connection, group, 3, "nobody", topic, 0),
            "committed": _committed(connection, group, topic),
            "metadata too long": _commit(connection, group, -1, "", topic, 0, note="x" * 5000),
        }
        member = _join(connection, group, "", version=3)  # old: no MEMBER_ID_REQUIRED, joins at once
        identity, generation = member.pop("member_id"), member["generation"]
        return {
            **found,
            "old join": member,
            "heartbeat while joining": _simple(connection, frames.HEARTBEAT, 1, group, generation, identity),
            "commit while joining": _commit(connection, group, generation, identity, topic, 0),
            "commit from outside": _commit(connection, group, -1, "", topic, 0),
            "sync": _sync(connection, group, generation, identity, leader=True),
            "wrong generation": _simple(connection, frames.HEARTBEAT, 1, group, generation + 1, identity),
            "commit, wrong generation": _commit(connection, group, generation + 1, identity, topic, 0),
            "commit": _commit(connection, group, generation, identity, topic, 0),
            "other protocol type": _join(connection, group, "", kind="connect"),
            "other protocol": _join(connection, group, "", protocols=("sticky",)),
            "leave": _leave(connection, group, identity),
            "leave again": _leave(connection, group, identity),
        }


def _join(
    connection: RawConnection,
    group: str,
    member: str,
    *,
    session_ms: int = 6000,
    kind: str = "consumer",
    protocols: tuple[str, ...] = ("range",),
    version: int = 4,
) -> dict[str, Any]:
    body = Body().string(group).put("ii", session_ms, 5000).string(member).string(kind).put("i", len(protocols))
    for protocol in protocols:
        body.string(protocol).blob(b"meta")
    reader = connection.call(frames.JOIN_GROUP, version, body)
    reader.one("i")
    error, generation, protocol = error_name(reader.one("h")), reader.one("i"), reader.string()
    leader, identity = reader.string(), reader.string() or ""
    found: dict[str, Any] = {"error": error, "generation": generation, "protocol": protocol}
    if error == "NONE":
        return {**found, "leads": leader == identity, "member_id": identity}
    return {**found, "leader": leader, "gets an id": bool(identity)}


def _sync(connection: RawConnection, group: str, generation: int, member: str, *, leader: bool = False) -> Any:
    body = Body().string(group).put("i", generation).string(member).put("i", int(leader))
    if leader:
        body.string(member).blob(b"assigned")
    reader = connection.call(frames.SYNC_GROUP, 1, body)
    reader.one("i")
    return [error_name(reader.one("h")), reader.blob()]


def _simple(connection: RawConnection, key: int, version: int, group: str, generation: int, member: str) -> str:
    reader = connection.call(key, version, Body().string(group).put("i", generation).string(member))
    reader.one("i")
    return error_name(reader.one("h"))


def _leave(connection: RawConnection, group: str, member: str) -> str:
    reader = connection.call(frames.LEAVE_GROUP, 1, Body().string(group).string(member))
    reader.one("i")
    return error_name(reader.one("h"))


def _commit(
    connection: RawConnection, group: str, generation: int, member: str, topic: str, partition: int, *, note: str = ""
) -> str:
    body = Body().string(group).put("i", generation).string(member).put("q", -1).put("i", 1).string(topic)
    body.put("iiq", 1, partition, 42).string(note)
    reader = connection.call(frames.OFFSET_COMMIT, 2, body)
    reader.one("i")
    reader.string()
    _, _, error = reader.take("iih")
    return error_name(error)


def _committed(connection: RawConnection, group: str, topic: str) -> Any:
    body = Body().string(group).put("i", 1).string(topic).put("iii", 2, 0, 1)
    reader = connection.call(frames.OFFSET_FETCH, 1, body)
    reader.one("i")
    reader.string()
    return reader.array(lambda r: [*r.take("iq"), r.string(), error_name(r.one("h"))])


@BOOK.case("bad-frames")
def bad_frames(side: Side) -> Any:
    """For any frame, the broker answers as Kafka or closes the connection; afterwards it still serves."""
    topic = side.topic()
    header = struct.pack(">hhih", frames.METADATA, 1, 1, -1)
    sent: dict[str, bytes] = {
        "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "tls": bytes.fromhex("16030100a5010000a10303") + b"\x5a" * 160,
        "length negative": struct.pack(">i", -1),
        "length 2 GB": struct.pack(">i", 2**31 - 1) + b"x" * 100,
        "length over the limit": struct.pack(">i", 104_857_601) + b"x" * 100,
        "length 0": struct.pack(">i", 0),
        "length 3": struct.pack(">i", 3) + b"abc",
        "unknown key": _frame(struct.pack(">hhih", 9999, 0, 1, -1)),
        "negative key": _frame(struct.pack(">hhih", -1, 0, 1, -1)),
        "unknown version": _frame(struct.pack(">hhih", frames.METADATA, 99, 1, -1)),
        "negative version": _frame(struct.pack(">hhih", frames.METADATA, -1, 1, -1)),
        "controller's key": _frame(struct.pack(">hhih", 52, 0, 1, -1)),
        "body missing": _frame(header),
        "array of 2 billion": _frame(header + struct.pack(">i", 2**31 - 1)),
        "array of -5": _frame(header + struct.pack(">i", -5)),
        "string of 30000 in nothing": _frame(header + struct.pack(">ih", 1, 30_000)),
        "client id of 32767 in nothing": _frame(struct.pack(">hhih", frames.METADATA, 1, 1, 32_767)),
    }
    found: dict[str, Any] = {name: _answer(side, data) for name, data in sent.items()}
    found["half a frame, then gone"] = _then(side, struct.pack(">i", 100) + b"x" * 20)
    found["ApiVersions 99"] = _api_versions_99(side)
    with RawConnection(side.bootstrap) as connection:
        found["still serves"] = metadata(connection, [topic])[topic]["error"]
    return found


@BOOK.case("bad-frames", name="long-strings")
def long_strings(side: Side) -> Any:
    """A string may have 32767 bytes in every version, although compact strings can encode longer ones."""
    found: dict[str, Any] = {}
    for size in (32_767, 32_768, 70_000):
        text = b"k" * size
        asked = {
            "find coordinator": struct.pack(">hhihb", frames.FIND_COORDINATOR, 3, 1, -1, 0) + _compact(text) + b"\0\0",
            "metadata": struct.pack(">hhihbb", frames.METADATA, 9, 1, -1, 0, 2) + _compact(text) + b"\0" + b"\0" * 4,
        }
        found |= {f"{what} of {size}": _answer(side, _frame(payload)) for what, payload in asked.items()}
    return found


def _compact(text: bytes) -> bytes:
    """A compact string; its length is an unsigned varint of 3 bytes."""
    size = len(text) + 1
    return bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14]) + text


def _frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def _answer(side: Side, data: bytes) -> str:
    with RawConnection(side.bootstrap, timeout_s=4) as connection:
        connection.send_bytes(data)
        try:
            return "closed" if connection.is_closed_by_peer() else "answered"
        except TimeoutError:
            return "silent"


def _then(side: Side, data: bytes) -> str:
    host, port = side.bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(data)
    return "sent"


def _api_versions_99(side: Side) -> Any:
    """Answered in version 0 with error 35 and only the versions of ApiVersions."""
    with RawConnection(side.bootstrap) as connection:
        # As every client sends it: flexible header (with tag section), software name and version.
        reader = connection.call(frames.API_VERSIONS, 99, Body().put("b", 0).put("bbbbb", 2, 120, 2, 49, 0))
        error, keys = error_name(reader.one("h")), reader.array(lambda r: r.take("hhh"))
        again = _usable(lambda: connection.call(frames.API_VERSIONS, 0, Body()))
    return {"error": error, "keys": [[key, least] for key, least, _ in keys], "connection goes on": again}


def _usable(call: Callable[[], Any]) -> bool:
    try:
        call()
    except ConnectionError:
        return False
    return True


@pytest.mark.parametrize("case", BOOK.params())
def test_case(case: Case, comparison: Comparison) -> None:
    comparison.check(case)
