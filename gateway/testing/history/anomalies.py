"""The names of the anomalies, and the type of a finding."""

from enum import StrEnum
from typing import NamedTuple


class Anomaly(StrEnum):
    """Kinds of anomalies in a history, with the names of `jepsen.tests.kafka`; two are our own.

    `torn-transaction`: some records of an operation were read, others never. `G1c-ww`: a cycle of read and write edges,
    which Kafka's contract allows.
    """

    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    DUPLICATE = "duplicate"
    ABORTED_READ = "G1a"
    PRECOMMITTED_READ = "precommitted-read"
    LOST_WRITE = "lost-write"
    UNSEEN = "unseen"
    TORN_TRANSACTION = "torn-transaction"
    POLL_SKIP_INSIDE = "int-poll-skip"
    POLL_BACK_INSIDE = "int-nonmonotonic-poll"
    POLL_SKIP = "poll-skip"
    POLL_BACK = "nonmonotonic-poll"
    SEND_SKIP_INSIDE = "int-send-skip"
    SEND_BACK_INSIDE = "int-nonmonotonic-send"
    SEND_BACK = "nonmonotonic-send"
    WRITE_CYCLE = "G0"
    READ_CYCLE_WRITES = "G1c-ww"
    READ_CYCLE = "G1c"
    READ_CYCLE_PROCESS = "G1c-process"
    READ_CYCLE_REALTIME = "G1c-realtime"


class Finding(NamedTuple):
    """One anomaly, and the records or operations in which it was found."""

    anomaly: Anomaly
    what: str

    def __str__(self) -> str:
        return f"{self.anomaly}: {self.what}"
