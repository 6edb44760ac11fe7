"""Anomalies of order: a client's polls or sends that skip records or go back.

Positions are indexes in the partition's order of records (`versions.py`), so that offsets without records do not count.
"""

from collections.abc import Iterable, Iterator

from odradek.gateway.testing.history.anomalies import Anomaly, Finding
from odradek.gateway.testing.history.operations import History, Key, Operation, Outcome, Read, Sent, by_process
from odradek.gateway.testing.history.versions import Versions


def order_of_polls(history: History, versions: Versions) -> Iterator[Finding]:
    """Polls that skip records or go back, within one operation and between operations of the same client."""
    for operations in by_process(history).values():
        last: dict[Key, int] = {}
        for operation in operations:
            for key in operation.assigned:
                last.pop(key, None)
            if operation.outcome is Outcome.OK:
                yield from _polls_of(operation, versions, last)


def _polls_of(operation: Operation, versions: Versions, last: dict[Key, int]) -> Iterator[Finding]:
    inside: dict[Key, int] = {}
    for read in operation.reads:
        index = versions.index[read.key, read.value]
        if read.key in operation.assigned:
            inside[read.key] = index
            continue
        if read.key in inside:
            step = index - inside[read.key]
            yield from _step(step, read, operation, Anomaly.POLL_SKIP_INSIDE, Anomaly.POLL_BACK_INSIDE)
        elif read.key in last:
            step = index - last[read.key]
            yield from _step(step, read, operation, Anomaly.POLL_SKIP, Anomaly.POLL_BACK)
        inside[read.key] = index
    last.update(inside)


def order_of_sends(history: History, versions: Versions) -> Iterator[Finding]:
    """Sends of one client whose records are in another order, or have other clients' records between them."""
    for operations in by_process(history).values():
        last: dict[Key, int] = {}
        for operation in operations:
            inside: dict[Key, int] = {}
            for sent, index in _indexed(operation.sends, versions):
                if sent.key in inside:
                    step = index - inside[sent.key]
                    yield from _step(step, sent, operation, Anomaly.SEND_SKIP_INSIDE, Anomaly.SEND_BACK_INSIDE)
                elif index <= last.get(sent.key, -1):
                    yield _found(Anomaly.SEND_BACK, sent, operation)
                inside[sent.key] = index
            last.update(inside)


def _indexed(sends: Iterable[Sent], versions: Versions) -> Iterator[tuple[Sent, int]]:
    for sent in sends:
        index = versions.index.get((sent.key, sent.value))
        if index is not None:
            yield sent, index


def _step(step: int, what: Read | Sent, operation: Operation, skip: Anomaly, back: Anomaly) -> Iterator[Finding]:
    if step != 1:
        yield _found(skip if step > 1 else back, what, operation)


def _found(anomaly: Anomaly, what: Read | Sent, operation: Operation) -> Finding:
    return Finding(anomaly, f"{operation.process} at {what.value} of {what.key}, offset {what.offset}")
