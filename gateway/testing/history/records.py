"""Anomalies of single records: read although aborted, read before the commit, lost, never read."""

from collections.abc import Iterator

from odradek.gateway.testing.history.anomalies import Anomaly, Finding
from odradek.gateway.testing.history.operations import History, Key, Outcome, Read
from odradek.gateway.testing.history.versions import Versions


def aborted_reads(history: History, versions: Versions) -> Iterator[Finding]:
    """Records that a successful operation read, although the operation that sent them failed."""
    for operation in history:
        if operation.outcome is not Outcome.OK:
            continue
        for read in operation.reads:
            writer = versions.writer.get((read.key, read.value))
            if writer is not None and writer.outcome is Outcome.FAILED:
                yield Finding(
                    Anomaly.ABORTED_READ, f"{operation.process} read {read.value} of {read.key}, which was aborted"
                )


def precommitted_reads(history: History) -> Iterator[Finding]:
    """Records that an operation read and also sent itself, so that they were not yet committed."""
    for operation in history:
        own = {(sent.key, sent.value) for sent in operation.sends}
        for read in operation.reads if own else ():
            if (read.key, read.value) in own:
                yield Finding(Anomaly.PRECOMMITTED_READ, f"{operation.process} read its own {read.value} of {read.key}")


def lost_writes(history: History, versions: Versions) -> Iterator[Finding]:
    """Committed records that no poll returned, although polls have read records after them."""
    highest = _highest_read(versions)
    for operation in history:
        if operation.outcome is not Outcome.OK:
            continue
        for sent in operation.sends:
            index = versions.last_index.get((sent.key, sent.value))
            is_passed = index is not None and index <= highest.get(sent.key, -1)
            if is_passed and (sent.key, sent.value) not in versions.taken:
                yield Finding(Anomaly.LOST_WRITE, f"{sent.key} lost {sent.value}, acknowledged at offset {sent.offset}")


def _highest_read(versions: Versions) -> dict[Key, int]:
    highest: dict[Key, int] = {}
    for key, value in versions.taken:
        highest[key] = max(highest.get(key, -1), versions.last_index[key, value])
    return highest


def unseen(history: History, versions: Versions) -> Iterator[Finding]:
    """Acknowledged records that no poll returned; an anomaly only if all partitions were read to their end."""
    for operation in history:
        if operation.outcome is Outcome.OK:
            for sent in operation.sends:
                if (sent.key, sent.value) not in versions.taken:
                    yield Finding(Anomaly.UNSEEN, f"{sent.key} never showed {sent.value} (offset {sent.offset})")


def torn_transactions(history: History, versions: Versions) -> Iterator[Finding]:
    """Operations of which some records were read, others never; an anomaly only if all partitions were read to the end.

    The outcome of the operation does not matter, so that this finds transactions that were neither committed nor
    aborted.
    """
    for operation in history:
        sends = list(operation.sends)
        missing = [sent for sent in sends if (sent.key, sent.value) not in versions.taken]
        if 0 < len(missing) < len(sends):
            what = ", ".join(f"{sent.value} of {sent.key}" for sent in missing[:6])
            yield Finding(Anomaly.TORN_TRANSACTION, f"{operation.process}@{operation.began} was seen without {what}")


def unknown_values(history: History, versions: Versions) -> list[Read]:
    """Reads of values that no operation sent: the history is incomplete, or a broker returned wrong data."""
    return [read for operation in history for read in operation.reads if (read.key, read.value) not in versions.writer]
