"""The judge of histories, judged: one as it should be has no anomaly, and each planted fault shows as its class."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import chain

import pytest

from compat_tests.history.anomalies import anomalies_of
from compat_tests.history.cycles import components, cycles_of
from compat_tests.history.operations import History, Operation, Outcome, Read, Send
from compat_tests.history.order import orders_of

KEYS = ("p0", "p1", "p2")


def simulated(seed: int, transactions: int = 60) -> History:
    """What clients of a perfect broker see: three producers, aborts, lost answers, two readers and a last look."""
    chance = random.Random(seed)
    logs: dict[str, list[Read]] = {key: [] for key in KEYS}
    ends = dict.fromkeys(KEYS, 0)
    positions = {(reader, key): 0 for reader in ("r1", "r2") for key in KEYS}
    operations: list[Operation] = []
    clock = 0
    for number in range(transactions):
        clock += 2
        outcome: Outcome = chance.choice(["ok", "ok", "ok", "fail", "info"])
        happened = outcome == "ok" or (outcome == "info" and chance.random() < 0.5)
        sends = []
        for step in range(chance.randint(1, 4)):
            key = chance.choice(KEYS)
            send = Send(key, f"{number}.{step}", None if outcome == "info" else ends[key])
            sends.append(send)
            if happened:
                logs[key].append(Read(key, send.value, ends[key]))
            ends[key] += 1
        for key in {send.key for send in sends}:
            ends[key] += 1  # the marker
        operations.append(Operation(f"w{number % 3}", outcome, clock, clock + 1, sends=tuple(sends)))
        reader = chance.choice(["r1", "r2"])
        operations.append(poll(reader, clock + 1, logs, positions, chance.randint(0, 5)))
    operations.extend([poll(reader, clock + 3, logs, positions, None) for reader in ("r1", "r2")])
    operations.append(Operation("last", "ok", clock + 5, clock + 6, reads=tuple(chain(*logs.values()))))
    return History(tuple(operations))


def poll(reader, clock, logs, positions, limit) -> Operation:
    reads: list[Read] = []
    for key in KEYS:
        at = positions[reader, key]
        some = logs[key][at : None if limit is None else at + limit]
        positions[reader, key] += len(some)
        reads += some
    return Operation(reader, "ok", clock, clock + 1, reads=tuple(reads))


def kinds(history: History) -> set[str]:
    return {found.kind for found in anomalies_of(history)}


@pytest.mark.parametrize("seed", range(20))
def test_a_history_as_it_should_be(seed: int) -> None:
    assert anomalies_of(simulated(seed)) == []


def op(process: str, at: int, *parts: Send | Read, outcome: Outcome = "ok", until: int | None = None) -> Operation:
    sends = tuple(part for part in parts if isinstance(part, Send))
    reads = tuple(part for part in parts if isinstance(part, Read))
    return Operation(process, outcome, at, at + 1 if until is None else until, sends, reads)


def w(value: str, offset: int | None = None, key: str = "x") -> Send:
    return Send(key, value, offset)


def r(value: str, offset: int, key: str = "x") -> Read:
    return Read(key, value, offset)


PLANTED: list[tuple[str, list[Operation]]] = [
    ("inconsistent-offsets", [op("w", 1, w("a", 0)), op("r", 3, r("b", 0))]),
    ("duplicate", [op("r", 1, r("a", 0), r("b", 1), r("a", 2))]),
    ("G1a", [op("w", 1, w("a", 0), outcome="fail"), op("r", 3, r("a", 0))]),
    ("precommitted-read", [op("w", 1, w("a", 0), r("a", 0))]),
    ("lost-write", [op("w", 1, w("a", 0)), op("w", 3, w("b", 1)), op("r", 5, r("b", 1))]),
    ("unseen", [op("w", 1, w("a", 0)), op("r", 3, r("b", 1, "y"))]),
    ("torn-transaction", [op("w", 1, w("a"), w("b", key="y"), outcome="info"), op("r", 3, r("a", 0))]),
    ("int-poll-skip", [op("r", 1, r("a", 0), r("c", 2)), op("q", 3, r("b", 1))]),
    ("int-nonmonotonic-poll", [op("r", 1, r("b", 1), r("a", 0))]),
    ("poll-skip", [op("r", 1, r("a", 0)), op("r", 3, r("c", 2)), op("q", 5, r("b", 1))]),
    ("nonmonotonic-poll", [op("r", 1, r("a", 0), r("b", 1)), op("r", 3, r("b", 1))]),
    ("int-nonmonotonic-send", [op("w", 1, w("a", 1), w("b", 0)), op("r", 3, r("b", 0), r("a", 1))]),
    ("nonmonotonic-send", [op("w", 1, w("a", 1)), op("w", 3, w("b", 0)), op("r", 5, r("b", 0), r("a", 1))]),
    ("G1c", [op("1", 1, w("a"), r("b", 0, "y"), until=9), op("2", 2, w("b", key="y"), r("a", 0), until=9)]),
    (
        "G1c-process",
        [
            op("1", 1, r("b", 0), until=9),
            op("1", 9, w("a", key="y"), until=20),
            op("2", 2, w("b"), r("a", 0, "y"), until=20),
        ],
    ),
    ("G1c-realtime", [op("1", 1, r("b", 0)), op("2", 5, w("b"))]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "operations"), PLANTED, ids=[kind for kind, _ in PLANTED])
def test_a_planted_fault_shows(kind: str, operations: list[Operation]) -> None:
    assert kind in kinds(History(tuple(sorted(operations, key=lambda each: each.ended))))


def test_every_class_is_planted() -> None:
    named = {line.split()[0].rstrip(",") for line in class_table()}
    assert {kind for kind, _ in PLANTED} >= named - {"G1c"}


def class_table() -> list[str]:
    """The lines of the table in `anomalies`' docstring."""
    import compat_tests.history.anomalies as module

    lines = (module.__doc__ or "").splitlines()
    return [line for line in lines if line.startswith("    ")]


@pytest.mark.parametrize("seed", range(10))
def test_planted_in_a_long_history(seed: int) -> None:
    """Faults of a broker, in the middle of what is right otherwise."""
    history = simulated(seed)
    readers = [place for place, each in enumerate(history.operations) if len(each.reads) > 2]
    moved = with_reads(history, readers[0], lambda reads: [*reads, reads[0]._replace(offset=9_999)])
    assert "duplicate" in kinds(moved)
    assert "int-poll-skip" in kinds(with_reads(history, -1, lambda reads: [reads[0], *reads[2:]]))
    assert "int-nonmonotonic-poll" in kinds(with_reads(history, -1, lambda reads: [reads[1], reads[0], *reads[2:]]))
    assert "unseen" in kinds(without_value(history, lambda each: each.outcome == "ok"))
    assert "torn-transaction" in kinds(without_value(history, lambda each: len(each.sends) > 1))
    assert "G1a" in kinds(as_if_aborted(history))


def with_reads(history: History, place: int, change) -> History:
    operations = list(history.operations)
    operations[place] = replace(operations[place], reads=tuple(change(list(operations[place].reads))))
    return History(tuple(operations))


def without_value(history: History, wanted) -> History:
    """No reader sees the last record of a committed transaction for which `wanted` is true."""
    seen = {read.value for each in history.operations for read in each.reads}
    writer = next(each for each in history.operations if each.sends and each.sends[-1].value in seen and wanted(each))
    gone = writer.sends[-1].value
    operations = [replace(each, reads=tuple(r for r in each.reads if r.value != gone)) for each in history.operations]
    return History(tuple(operations))


def as_if_aborted(history: History) -> History:
    operations = list(history.operations)
    place = next(place for place, each in enumerate(operations) if each.sends and each.outcome == "ok")
    operations[place] = replace(operations[place], outcome="fail")
    return History(tuple(operations))


def test_what_kafka_allows_is_named_only_when_asked_for() -> None:
    """Two transactions whose records interleave in two partitions (G0)."""
    one = op("1", 1, w("a", 0), w("d", 1, "y"), until=9)
    two = op("2", 2, w("b", 1), w("c", 0, "y"), until=9)
    reader = op("r", 10, r("a", 0), r("b", 1), r("c", 0, "y"), r("d", 1, "y"))
    history = History((one, two, reader))
    assert anomalies_of(history) == []
    assert {kind for kind, _ in cycles_of(history, orders_of(history), allowed_too=True)} == {"G0", "G1c-ww"}


def test_components_of_a_graph() -> None:
    edges = {0: {1}, 1: {2}, 2: {0, 3}, 3: {4}, 4: {3}, 5: {5}}
    assert sorted(components(6, edges)) == [[0, 1, 2], [3, 4]]


def test_a_consumer_may_begin_anew_where_it_was_assigned() -> None:
    again = Operation("r", "ok", 3, 3, assigned=frozenset({"x"}))
    history = History((op("r", 1, r("a", 0), r("b", 1)), again, op("r", 4, r("a", 0), r("b", 1))))
    assert anomalies_of(history) == []
