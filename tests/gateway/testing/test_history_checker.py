"""The history checker finds each anomaly in the smallest history that shows it, and none in correct ones."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import pytest

from odradek.gateway.testing.history.anomalies import Anomaly
from odradek.gateway.testing.history.checker import ALWAYS_ALLOWED, Contract, judge
from odradek.gateway.testing.history.cycles import strongly_connected
from odradek.gateway.testing.history.operations import Key, Operation, Outcome, Read, Sent

X, Y, Z = ("t", 0), ("t", 1), ("t", 2)


class Log:
    """Appends operations to a history, one after the other unless times are given."""

    def __init__(self) -> None:
        self.history: list[Operation] = []
        self._time = 0

    def did(
        self,
        process: str,
        *steps: Sent | Read,
        outcome: Outcome = Outcome.OK,
        assigned: frozenset[Key] = frozenset(),
        times: tuple[int, int | None] | None = None,
    ) -> "Log":
        self._time += 2
        began, ended = times or (self._time, self._time + 1)
        self.history.append(Operation(process, outcome, steps, began, ended, assigned))
        return self

    def errors(self, contract: Contract = Contract()) -> list[Anomaly]:  # noqa: B008 - immutable
        return sorted({finding.anomaly for finding in judge(self.history, contract).errors})


def sent(key: Key, offset: int | None, value: int) -> Sent:
    return Sent(key, value, offset)


def read(key: Key, offset: int, value: int) -> Read:
    return Read(key, offset, value)


def good() -> Log:
    log = Log().did("p", sent(X, 0, 1), sent(X, 1, 2)).did("q", sent(X, 3, 3), sent(Y, 0, 4))
    return log.did("c", read(X, 0, 1), read(X, 1, 2)).did("c", read(X, 3, 3), read(Y, 0, 4))


def test_a_good_history_has_no_errors():
    assert judge(good().history).is_valid


CASES: dict[Anomaly, Callable[[], Log]] = {
    Anomaly.INCONSISTENT_OFFSETS: lambda: (
        Log().did("p", sent(X, 0, 1)).did("c", read(X, 0, 1)).did("d", read(X, 0, 2)).did("q", sent(X, None, 2))
    ),
    Anomaly.DUPLICATE: lambda: Log().did("p", sent(X, 0, 1)).did("c", read(X, 0, 1)).did("d", read(X, 1, 1)),
    Anomaly.ABORTED_READ: lambda: Log().did("p", sent(X, None, 1), outcome=Outcome.FAILED).did("c", read(X, 0, 1)),
    Anomaly.PRECOMMITTED_READ: lambda: Log().did("p", sent(X, 0, 1), read(X, 0, 1)),
    Anomaly.LOST_WRITE: lambda: Log().did("p", sent(X, 0, 1)).did("p", sent(X, 1, 2)).did("c", read(X, 1, 2)),
    Anomaly.UNSEEN: lambda: Log().did("p", sent(X, None, 1)),
    Anomaly.TORN_TRANSACTION: lambda: (
        Log().did("p", sent(X, None, 1), sent(Y, None, 2), outcome=Outcome.UNKNOWN).did("c", read(X, 0, 1))
    ),
    Anomaly.POLL_SKIP_INSIDE: lambda: (
        Log()
        .did("p", sent(X, 0, 1), sent(X, 1, 2), sent(X, 2, 3))
        .did("c", read(X, 0, 1), read(X, 2, 3))
        .did("d", read(X, 1, 2))
    ),
    Anomaly.POLL_BACK_INSIDE: lambda: (
        Log().did("p", sent(X, 0, 1), sent(X, 1, 2)).did("c", read(X, 1, 2), read(X, 0, 1))
    ),
    Anomaly.POLL_SKIP: lambda: (
        Log()
        .did("p", sent(X, 0, 1), sent(X, 1, 2), sent(X, 2, 3))
        .did("c", read(X, 0, 1))
        .did("c", read(X, 2, 3))
        .did("d", read(X, 1, 2))
    ),
    Anomaly.POLL_BACK: lambda: (
        Log().did("p", sent(X, 0, 1), sent(X, 1, 2)).did("c", read(X, 1, 2)).did("c", read(X, 0, 1))
    ),
    Anomaly.SEND_BACK_INSIDE: lambda: (
        Log().did("p", sent(X, 1, 1), sent(X, 0, 2)).did("c", read(X, 0, 2), read(X, 1, 1))
    ),
    Anomaly.SEND_BACK: lambda: (
        Log().did("p", sent(X, 1, 1)).did("p", sent(X, 0, 2)).did("c", read(X, 0, 2), read(X, 1, 1))
    ),
    Anomaly.READ_CYCLE: lambda: (
        Log().did("p", sent(X, 0, 1), read(Y, 0, 2), times=(1, 9)).did("q", sent(Y, 0, 2), read(X, 0, 1), times=(2, 8))
    ),
    Anomaly.READ_CYCLE_PROCESS: lambda: (
        Log()
        .did("p", read(Y, 0, 2), times=(1, 20))
        .did("q", read(X, 0, 1), times=(2, 20))
        .did("p", sent(X, 0, 1), times=(3, 20))
        .did("q", sent(Y, 0, 2), times=(4, 20))
    ),
    Anomaly.READ_CYCLE_REALTIME: lambda: (
        Log().did("c", read(X, 0, 1), times=(1, 2)).did("p", sent(X, 0, 1), times=(3, 4))
    ),
}


def test_every_anomaly_that_is_an_error_has_a_case():
    assert set(CASES) == set(Anomaly) - ALWAYS_ALLOWED


@pytest.mark.parametrize("anomaly", CASES, ids=str)
def test_each_anomaly_is_found_by_its_own_name(anomaly: Anomaly):
    also = {Anomaly.LOST_WRITE: {Anomaly.UNSEEN}, Anomaly.INCONSISTENT_OFFSETS: {Anomaly.READ_CYCLE_REALTIME}}
    assert set(CASES[anomaly]().errors()) == {anomaly} | also.get(anomaly, set())


@pytest.mark.parametrize(
    ("anomaly", "log"),
    [
        (
            Anomaly.SEND_SKIP_INSIDE,
            Log()
            .did("p", sent(X, 0, 1), sent(X, 2, 3), times=(1, 5))
            .did("q", sent(X, 1, 2), times=(2, 3))
            .did("c", read(X, 0, 1), read(X, 1, 2), read(X, 2, 3)),
        ),
        (
            Anomaly.WRITE_CYCLE,
            Log()
            .did("p", sent(X, 0, 1), sent(Y, 1, 2), times=(1, 5))
            .did("q", sent(X, 1, 3), sent(Y, 0, 4), times=(2, 6))
            .did("c", read(X, 0, 1), read(X, 1, 3), read(Y, 0, 4), read(Y, 1, 2)),
        ),
        (
            Anomaly.READ_CYCLE_WRITES,
            Log()
            .did("p", sent(X, 0, 1), read(Y, 0, 3), times=(1, 5))
            .did("q", sent(X, 1, 2), sent(Y, 0, 3), times=(2, 6))
            .did("c", read(X, 0, 1), read(X, 1, 2), read(Y, 0, 3)),
        ),
    ],
    ids=["int-send-skip", "G0", "G1c-ww"],
)
def test_what_kafka_allows_is_told_and_no_error(anomaly: Anomaly, log: Log):
    verdict = judge(log.history)
    assert verdict.is_valid
    assert anomaly in {finding.anomaly for finding in verdict.allowed}


@pytest.mark.parametrize(
    ("contract", "anomaly"),
    [
        (Contract(read_to_end=False), Anomaly.UNSEEN),
        (Contract(read_to_end=False), Anomaly.TORN_TRANSACTION),
        (Contract(atomic=False), Anomaly.TORN_TRANSACTION),
        (Contract(subscribes=True), Anomaly.POLL_BACK),
        (Contract(subscribes=True), Anomaly.POLL_SKIP),
        (Contract(idempotent=False), Anomaly.DUPLICATE),
        (Contract(one_in_flight=False), Anomaly.SEND_BACK),
        (Contract(one_in_flight=False), Anomaly.SEND_BACK_INSIDE),
        (Contract(read_committed=False), Anomaly.ABORTED_READ),
        (Contract(read_committed=False), Anomaly.READ_CYCLE),
    ],
    ids=str,
)
def test_a_weaker_contract_allows_it(contract: Contract, anomaly: Anomaly):
    assert CASES[anomaly]().errors(contract) == []


def test_a_position_may_jump_where_a_partition_was_assigned_anew():
    log = Log().did("p", sent(X, 0, 1), sent(X, 1, 2), sent(X, 2, 3)).did("c", read(X, 0, 1), read(X, 1, 2))
    log.did("c", read(X, 0, 1), assigned=frozenset({X})).did("c", read(X, 1, 2), read(X, 2, 3))
    assert log.errors() == []


def test_sends_of_unknown_end_count_once_one_of_them_was_read():
    seen = Log().did("p", sent(X, 0, 1), sent(X, 1, 2), outcome=Outcome.UNKNOWN).did("q", sent(X, 2, 3))
    seen.did("c", read(X, 0, 1), read(X, 2, 3))
    assert seen.errors(Contract(atomic=False)) == [Anomaly.POLL_SKIP_INSIDE]
    unseen = Log().did("p", sent(X, 0, 1), outcome=Outcome.UNKNOWN).did("q", sent(X, 1, 3)).did("c", read(X, 1, 3))
    assert unseen.errors() == []


def test_what_a_failed_operation_has_read_is_to_be_read_again():
    log = Log().did("p", sent(X, 0, 1)).did("c", read(X, 0, 1), sent(Y, None, 2), outcome=Outcome.FAILED)
    assert log.errors() == [Anomaly.UNSEEN]
    assert log.did("c", read(X, 0, 1), assigned=frozenset({X})).errors() == []


def test_a_transaction_that_reads_its_own_record_is_found_in_any_order_of_its_steps():
    assert Log().did("p", read(X, 0, 1), sent(X, 0, 1)).errors() == [Anomaly.PRECOMMITTED_READ]


def test_a_consumer_may_begin_anew_where_it_tells_so_beforehand():
    log = Log().did("p", sent(X, 0, 1), sent(X, 1, 2)).did("c", read(X, 0, 1), read(X, 1, 2))
    log.did("c", outcome=Outcome.UNKNOWN, assigned=frozenset({X})).did("c", read(X, 0, 1), read(X, 1, 2))
    assert log.errors() == []


def test_a_record_that_was_never_sent_is_refused():
    with pytest.raises(ValueError, match="no operation sent"):
        judge(Log().did("c", read(X, 0, 1)).history)


def random_history(chance: random.Random, operations: int) -> list[Operation]:
    """A history of a correct log: producers append in transactions, some of which abort; consumers read in order."""
    logs: dict[Key, list[tuple[int, int]]] = {("t", index): [] for index in range(4)}
    ends = dict.fromkeys(logs, 0)
    positions = {(consumer, key): 0 for consumer in ("c", "d") for key in logs}
    history: list[Operation] = []
    for number in range(operations):
        if chance.random() < 0.5:
            outcome = Outcome.FAILED if chance.random() < 0.2 else Outcome.OK
            steps: list[Sent | Read] = []
            for _ in range(chance.randrange(1, 5)):
                key = chance.choice(sorted(logs))
                value = number * 10 + len(steps)
                steps.append(Sent(key, value, ends[key]))
                if outcome is Outcome.OK:
                    logs[key].append((ends[key], value))
                ends[key] += chance.randrange(1, 3)
            history.append(Operation(chance.choice("pq"), outcome, steps, 2 * number, 2 * number + 1))
        else:
            history.append(_poll(chance.choice("cd"), logs, positions, chance.randrange(1, 20), 2 * number))
    history += [_poll("c", logs, positions, operations * 5, 2 * operations)]
    return history


def _poll(
    consumer: str,
    logs: dict[Key, list[tuple[int, int]]],
    positions: dict[tuple[str, Key], int],
    count: int,
    time: int,
) -> Operation:
    steps: list[Read] = []
    for key, log in logs.items():
        start = positions[consumer, key]
        steps += [Read(key, offset, value) for offset, value in log[start : start + count]]
        positions[consumer, key] = min(len(log), start + count)
    return Operation(consumer, Outcome.OK, steps, time, time + 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_correct_log_is_never_accused_and_a_lost_record_always_found(seed: int):
    history = random_history(random.Random(seed), 300)
    verdict = judge(history)
    assert verdict.is_valid, str(verdict)
    reads = [step for each in history if each.process == "c" for step in each.steps if isinstance(step, Read)]
    lost = random.Random(seed).choice(reads)
    broken = [
        Operation(each.process, each.outcome, [step for step in each.steps if step != lost], each.began, each.ended)
        for each in history
    ]
    found = {(finding.anomaly, str(lost.value) in finding.what) for finding in judge(broken).errors}
    assert (Anomaly.UNSEEN, True) in found


KEYS = (X, Y, Z)


def transactions(seed: int, count: int = 60) -> list[Operation]:
    """A history with a correct broker: three producers, aborts, lost answers, two readers and a final full read."""
    chance = random.Random(seed)
    logs: dict[Key, list[Read]] = {key: [] for key in KEYS}
    ends = dict.fromkeys(KEYS, 0)
    positions = {(reader, key): 0 for reader in ("r1", "r2") for key in KEYS}
    history: list[Operation] = []
    clock = 0
    for number in range(count):
        clock += 2
        outcome = chance.choice([Outcome.OK, Outcome.OK, Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN])
        happened = outcome is Outcome.OK or (outcome is Outcome.UNKNOWN and chance.random() < 0.5)
        sends: list[Sent] = []
        for step in range(chance.randint(1, 4)):
            key = chance.choice(KEYS)
            sends.append(Sent(key, f"{number}.{step}", None if outcome is Outcome.UNKNOWN else ends[key]))
            if happened:
                logs[key].append(Read(key, ends[key], f"{number}.{step}"))
            ends[key] += 1
        for key in {each.key for each in sends}:
            ends[key] += 1  # the marker
        ended = None if outcome is Outcome.UNKNOWN else clock + 1
        history.append(Operation(f"w{number % 3}", outcome, sends, clock, ended))
        reader = chance.choice(["r1", "r2"])
        history.append(_look(reader, clock + 1, logs, positions, chance.randint(0, 5)))
    history += [_look(reader, clock + 3, logs, positions, None) for reader in ("r1", "r2")]
    return [*history, Operation("last", Outcome.OK, list(chain(*logs.values())), clock + 5, clock + 6)]


def _look(
    reader: str,
    clock: int,
    logs: dict[Key, list[Read]],
    positions: dict[tuple[str, Key], int],
    limit: int | None,
) -> Operation:
    reads: list[Read] = []
    for key in KEYS:
        at = positions[reader, key]
        some = logs[key][at : None if limit is None else at + limit]
        positions[reader, key] += len(some)
        reads += some
    return Operation(reader, Outcome.OK, reads, clock, clock + 1)


def kinds(history: list[Operation]) -> set[Anomaly]:
    return {finding.anomaly for finding in judge(history).errors}


@pytest.mark.parametrize("seed", range(20))
def test_correct_transactions_are_never_accused(seed: int):
    verdict = judge(transactions(seed))
    assert verdict.is_valid, str(verdict)


@pytest.mark.parametrize("seed", range(10))
def test_a_fault_is_found_in_the_middle_of_what_is_right_otherwise(seed: int):
    history = transactions(seed)
    index = next(index for index, each in enumerate(history) if len(list(each.reads)) > 2)
    moved = with_reads(history, index, lambda reads: [*reads, replace(reads[0], offset=9_999)])
    assert Anomaly.DUPLICATE in kinds(moved)
    assert Anomaly.POLL_SKIP_INSIDE in kinds(with_reads(history, -1, lambda reads: [reads[0], *reads[2:]]))
    swapped = with_reads(history, -1, lambda reads: [reads[1], reads[0], *reads[2:]])
    assert Anomaly.POLL_BACK_INSIDE in kinds(swapped)
    assert Anomaly.UNSEEN in kinds(without_value(history, lambda each: each.outcome is Outcome.OK))
    assert Anomaly.TORN_TRANSACTION in kinds(without_value(history, lambda each: len(each.steps) > 1))
    index = next(index for index, each in enumerate(history) if list(each.sends) and each.outcome is Outcome.OK)
    aborted = [*history[:index], replace(history[index], outcome=Outcome.FAILED), *history[index + 1 :]]
    assert Anomaly.ABORTED_READ in kinds(aborted)


def with_reads(history: list[Operation], index: int, change: Callable[[list[Read]], list[Read]]) -> list[Operation]:
    operations = list(history)
    operations[index] = replace(operations[index], steps=change(list(operations[index].reads)))
    return operations


def without_value(history: list[Operation], wanted: Callable[[Operation], bool]) -> list[Operation]:
    """The history with the last record of one transaction removed from all reads, if it was read and `wanted`."""
    seen = {each.value for operation in history for each in operation.reads}
    gone = next(
        sends[-1].value
        for operation in history
        if (sends := list(operation.sends)) and sends[-1].value in seen and wanted(operation)
    )
    return [
        replace(each, steps=[step for step in each.steps if isinstance(step, Sent) or step.value != gone])
        for each in history
    ]


def op(
    process: str, at: int, *steps: Sent | Read, outcome: Outcome = Outcome.OK, until: int | None = None
) -> Operation:
    return Operation(process, outcome, steps, at, at + 1 if until is None else until)


def w(value: str, offset: int | None = None, key: Key = X) -> Sent:
    return Sent(key, value, offset)


def r(value: str, offset: int, key: Key = X) -> Read:
    return Read(key, offset, value)


PLANTED: list[tuple[str, list[Operation]]] = [
    ("inconsistent-offsets", [op("w", 1, w("a", 0)), op("r", 3, r("b", 0))]),
    ("duplicate", [op("r", 1, r("a", 0), r("b", 1), r("a", 2))]),
    ("G1a", [op("w", 1, w("a", 0), outcome=Outcome.FAILED), op("r", 3, r("a", 0))]),
    ("precommitted-read", [op("w", 1, w("a", 0), r("a", 0))]),
    ("lost-write", [op("w", 1, w("a", 0)), op("w", 3, w("b", 1)), op("r", 5, r("b", 1))]),
    ("unseen", [op("w", 1, w("a", 0)), op("r", 3, r("b", 1, Y))]),
    ("torn-transaction", [op("w", 1, w("a"), w("b", key=Y), outcome=Outcome.UNKNOWN), op("r", 3, r("a", 0))]),
    ("int-poll-skip", [op("r", 1, r("a", 0), r("c", 2)), op("q", 3, r("b", 1))]),
    ("int-nonmonotonic-poll", [op("r", 1, r("b", 1), r("a", 0))]),
    ("poll-skip", [op("r", 1, r("a", 0)), op("r", 3, r("c", 2)), op("q", 5, r("b", 1))]),
    ("nonmonotonic-poll", [op("r", 1, r("a", 0), r("b", 1)), op("r", 3, r("b", 1))]),
    ("int-nonmonotonic-send", [op("w", 1, w("a", 1), w("b", 0)), op("r", 3, r("b", 0), r("a", 1))]),
    ("nonmonotonic-send", [op("w", 1, w("a", 1)), op("w", 3, w("b", 0)), op("r", 5, r("b", 0), r("a", 1))]),
    ("G1c", [op("1", 1, w("a"), r("b", 0, Y), until=9), op("2", 2, w("b", key=Y), r("a", 0), until=9)]),
    (
        "G1c-process",
        [
            op("1", 1, r("b", 0), until=9),
            op("1", 9, w("a", key=Y), until=20),
            op("2", 2, w("b"), r("a", 0, Y), until=20),
        ],
    ),
    ("G1c-realtime", [op("1", 1, r("b", 0)), op("2", 5, w("b"))]),
]


@pytest.mark.parametrize(("anomaly", "history"), PLANTED, ids=[anomaly for anomaly, _ in PLANTED])
def test_a_planted_fault_shows(anomaly: str, history: list[Operation]):
    written = {(each.key, each.value) for operation in history for each in operation.sends}
    read_alone = {(each.key, each.value) for operation in history for each in operation.reads} - written
    others = [
        Operation(f"writer of {value}", Outcome.UNKNOWN, [Sent(key, value)], 0, None)
        for key, value in sorted(read_alone, key=str)
    ]
    assert anomaly in kinds(others + history)


def test_components_of_a_graph():
    graph = [{1}, {2}, {0, 3}, {4}, {3}, {5}]
    components = sorted(sorted(component) for component in strongly_connected(graph))
    assert components == [[0, 1, 2], [3, 4], [5]]


def test_components_of_a_long_chain_need_no_deep_stack():
    size = 5_000
    ring = [{(node + 1) % size} for node in range(size)]
    assert [len(component) for component in strongly_connected(ring)] == [size]
    chain = [{node + 1} if node + 1 < size else set[int]() for node in range(size)]
    assert all(len(component) == 1 for component in strongly_connected(chain))
