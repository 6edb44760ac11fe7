"""Guards for verifying with the transaction coordinator that a partition is in the producer's transaction (KIP-890).

A transactional batch may open a transaction in a log only if the coordinator has added the partition to it; otherwise
no marker would ever end it. While the verification is in flight, a marker of the previous transaction may arrive. So
each log creates a guard before the request, which the first batch of the transaction and every marker delete:

    begin(logs) ─► partitions to verify ─► answer(errors) ─► is_overtaken(logs)? ─► no: append with `outcomes`
       ▲                                                             │
       └───────────────────────── yes ───────────────────────────────┘

The loop terminates: after a positive answer only the end of this same transaction writes a marker.
"""

from collections.abc import Mapping
from typing import Generic, NamedTuple, Protocol, TypeVar

from odradek.partitions.results import Rejected
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import NO_SEQUENCE, BatchHeader

K = TypeVar("K")


class VerificationGuard:
    """Represents the verifications of one producer epoch that are in flight; `lowest_sequence` must be appended first.

    Guards are compared by identity. `adds_partition` is True if the producer uses transaction version 2.
    """

    __slots__ = ("_found_ms", "adds_partition", "lowest_sequence", "producer_epoch")

    def __init__(self, producer_epoch: int, sequence: int, *, adds_partition: bool) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.adds_partition = adds_partition
        self._found_ms: int | None = None

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """True if an earlier call found the guard already, at least `expiration_ms` ago.

        The age counts from the first call, so that a verification needs no clock.
        """
        if self._found_ms is None:
            self._found_ms = now_ms
        return now_ms - self._found_ms >= expiration_ms

    def ask_also(self, producer_epoch: int, sequence: int) -> None:
        """Another batch waits for the same verification."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)

    def keeps_waiting(self, header: BatchHeader, *, known: bool) -> bool:
        """True if another batch must come before this one; `known` is True if the log has an entry of the producer."""
        if self.adds_partition and not known and header.base_sequence != 0:
            return True
        return self.lowest_sequence != NO_SEQUENCE and header.base_sequence > self.lowest_sequence


class GuardedLog(Protocol):
    """The operations of a log that a verification needs; see `Leader`."""

    def verification(
        self, producer_id: int, producer_epoch: int, sequence: int, *, adds_partition: bool
    ) -> VerificationGuard | Rejected | None:
        """Returns the guard; None when no verification is needed. A refusal for an out-of-date epoch."""
        ...

    def is_overtaken(self, producer_id: int, guard: VerificationGuard) -> bool:
        """True if the guard was deleted."""
        ...

    def end_verification(self, producer_id: int) -> None:
        """Remove the producer's guard."""
        ...


class GuardedBatch(NamedTuple):
    """The producer of the batch to verify; no sequence if a coordinator writes the batch."""

    producer_id: int
    producer_epoch: int
    sequence: int = NO_SEQUENCE


class TransactionGuard(Generic[K]):
    """The verification of one batch in each of several logs; `K` identifies the logs.

    `outcomes` has the guard to append with, or the error that refuses the batch. A log that is not in it needs neither.
    """

    def __init__(self, batches: Mapping[K, GuardedBatch], *, adds_partition: bool) -> None:
        self.outcomes: dict[K, VerificationGuard | ErrorCode] = {}
        self._batches = batches
        self._adds_partition = adds_partition

    def begin(self, logs: Mapping[K, GuardedLog]) -> list[K]:
        """Create the guards of the logs that this broker serves, and return the logs to verify.

        An out-of-date epoch is an error at once, without a request to the coordinator.
        """
        self.outcomes.clear()
        for key, log in logs.items():
            batch = self._batches[key]
            guard = log.verification(*batch, adds_partition=self._adds_partition)
            if guard is not None:
                self.outcomes[key] = guard.error if isinstance(guard, Rejected) else guard
        return [key for key, outcome in self.outcomes.items() if isinstance(outcome, VerificationGuard)]

    def answer(self, errors: Mapping[K, ErrorCode], logs: Mapping[K, GuardedLog]) -> None:
        """Apply the coordinator's response for all partitions of the request.

        If a refused batch has a sequence, its guard stays in the log: later batches must not overtake its retry.
        """
        for key, error in errors.items():
            if error:
                self.outcomes[key] = error
                if self._batches[key].sequence == NO_SEQUENCE and key in logs:
                    logs[key].end_verification(self._batches[key].producer_id)

    def is_overtaken(self, logs: Mapping[K, GuardedLog]) -> bool:
        """True if a marker of the previous transaction has deleted a guard, so that verification must restart."""
        return any(
            key in logs and logs[key].is_overtaken(self._batches[key].producer_id, outcome)
            for key, outcome in self.outcomes.items()
            if isinstance(outcome, VerificationGuard)
        )
