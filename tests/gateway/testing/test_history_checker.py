"""The judge of histories: each anomaly is found in the smallest history that shows it, and none where there is none."""

import random
from collections.abc import Callable

import pytest

from odradek.gateway.testing.history.anomalies import Anomaly
from odradek.gateway.testing.history.checker import Contract, judge
from odradek.gateway.testing.history.cycles import strongly_connected
from odradek.gateway.testing.history.operations import Key, Operation, Outcome, Read, Sent

X, Y = ("t", 0), ("t", 1)


class Log:
    """Writes a history down, one operation after the other unless its times are given."""

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
    Anomaly.LOST_WRITE: lambda: Log().did("p", sent(X, 0, 1), sent(X, 1, 2)).did("c", read(X, 1, 2)),
    Anomaly.UNSEEN: lambda: Log().did("p", sent(X, None, 1)),
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
    ],
    ids=["int-send-skip", "G0"],
)
def test_what_kafka_allows_is_told_and_no_error(anomaly: Anomaly, log: Log):
    verdict = judge(log.history)
    assert verdict.is_valid
    assert anomaly in {finding.anomaly for finding in verdict.allowed}


@pytest.mark.parametrize(
    ("contract", "anomaly"),
    [
        (Contract(read_to_end=False), Anomaly.UNSEEN),
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
    assert seen.errors() == [Anomaly.POLL_SKIP_INSIDE]
    unseen = Log().did("p", sent(X, 0, 1), outcome=Outcome.UNKNOWN).did("q", sent(X, 1, 3)).did("c", read(X, 1, 3))
    assert unseen.errors() == []


def test_a_record_that_was_never_sent_is_refused():
    with pytest.raises(ValueError, match="no operation sent"):
        judge(Log().did("c", read(X, 0, 1)).history)


def random_history(chance: random.Random, operations: int) -> list[Operation]:
    """What a correct log would show: producers append in transactions, of which some abort; consumers read in order."""
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


def test_components_of_a_long_chain_need_no_deep_stack():
    size = 5_000
    ring = [{(node + 1) % size} for node in range(size)]
    assert [len(component) for component in strongly_connected(ring)] == [size]
    chain = [{node + 1} if node + 1 < size else set[int]() for node in range(size)]
    assert all(len(component) == 1 for component in strongly_connected(chain))
