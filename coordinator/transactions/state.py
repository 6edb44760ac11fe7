"""The states of a transactional id.

Theory of operation
-------------------
A transactional id outlives its producers. Each producer that initialises it gets a producer id and an epoch one higher
than its predecessor's, which *fences* the predecessor: its later requests and batches have a stale epoch. An id is in
at most one transaction at a time:

    from              to                by                                 because
    (none)            Empty             InitProducerId                     a new id, or an expired one
    Empty, Complete*  Empty             InitProducerId                     the next producer: epoch + 1
    Empty, Complete*  Ongoing           AddPartitionsToTxn, AddOffsets     the first partition; the time-out runs
    Ongoing           Ongoing           AddPartitionsToTxn, AddOffsets     more partitions
    Ongoing           PrepareCommit     EndTxn                             the decision; final once committed
    Ongoing           PrepareAbort      EndTxn, InitProducerId, time-out   the latter two fence: epoch + 1
    Empty, Complete*  PrepareAbort      EndTxn from version 5              nothing was written: epoch + 1
    PrepareCommit     CompleteCommit    the runtime                        every partition has its marker
    PrepareAbort      CompleteAbort     the runtime                        every partition has its marker
    Empty, Complete*  (gone)            expiry                             unused for `transactional.id.expiration.ms`

From EndTxn 5 on (`transaction.version` 2, KIP-890 part 2) every end raises the epoch, and the markers carry the raised
one. So a late batch or EndTxn has a stale epoch, and cannot become part of the next transaction. When the epoch of a
producer id cannot be raised further, the decision contains the next producer id, which is in force, with epoch 0, when
the markers are written. What a request may do depends on its own version; the cluster's finalized level determines what
the broker does by itself (fencing, time-outs), and how records are written.

Each transition writes one record with the whole state. The only state in memory that no record describes is
`table.predecessors`, which is used to answer a repeated InitProducerId; Kafka does not store it either.

Between Prepare* and Complete* the runtime writes a marker into every partition of the transaction, including those of
`__consumer_offsets`. After a crash, replay restores the state, and the markers are written again; a second marker
changes nothing for readers. Meanwhile other requests for the id get CONCURRENT_TRANSACTIONS. So every transaction ends:
by its producer, by the next producer, or by its time-out. A partition can only be written to in a transaction that
includes it (`add.verify`), so every partition gets its marker.

Kafka's state PrepareEpochFence is not used: there it is a transition in memory; here fencing and PrepareAbort are one
record.

Sources: KIP-98, KIP-360 (bumping the epoch instead of failing), KIP-447 (offsets), KIP-664 (tools), KIP-890, Kafka's
`TransactionCoordinator` and `TransactionMetadata`.
"""

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """A transactional id's state; the numbers are those of the records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The state's name in tools."""
        return self.name.title().replace("_", "")


_S = TransactionState

TRANSITIONS: Final[dict[TransactionState | None, frozenset[TransactionState | None]]] = {
    None: frozenset({_S.EMPTY}),
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, None}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, None}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, None}),
}
"""From each state, the states that may follow; None is an id that does not exist. Any other is a bug."""

PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""The states of a decided transaction whose markers are being written."""

NO_OPEN_TRANSACTION: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""The states without an open transaction."""

STATE_BY_LABEL: Final = {state.label: state for state in TransactionState}
