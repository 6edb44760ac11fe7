"""EndTxn, versions 0 to 5, and the completion once all markers are written.

Up to version 4 an id's epoch does not change, so only the state distinguishes a retry of an EndTxn from the next one:

                     commit                      abort
    Ongoing          PrepareCommit               PrepareAbort
    PrepareCommit    CONCURRENT_TRANSACTIONS     INVALID_TXN_STATE
    PrepareAbort     INVALID_TXN_STATE           CONCURRENT_TRANSACTIONS
    CompleteCommit   success, no change          INVALID_TXN_STATE
    CompleteAbort    INVALID_TXN_STATE           success, no change
    Empty            INVALID_TXN_STATE           INVALID_TXN_STATE

From version 5 on the decision raises the epoch (KIP-890). The same table then holds for a *retry*, whose epoch is the
preceding one. With the current epoch it is the next EndTxn, of a transaction without writes: a commit is refused, but a
producer that does not know whether anything was written may abort, and its epoch is raised.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from odradek.coordinator.transactions.add import ProducerIdentity, check_producer
from odradek.coordinator.transactions.init import FENCING_EPOCH, LAST_EPOCH, NeedsProducerId
from odradek.coordinator.transactions.state import NO_OPEN_TRANSACTION, PREPARED, TransactionState
from odradek.coordinator.transactions.table import Predecessor, Transaction, TransactionTable
from odradek.coordinator.transactions.version import EPOCH_PER_TRANSACTION, PLAIN
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class Ended(NamedTuple):
    """The result of an EndTxn: the error, and if it is NONE the producer id and epoch of the next transaction."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


Decided = tuple[Transaction | None, Ended | NeedsProducerId]
"""The id's next state, None if it does not change, and the result."""

_AFTER_THE_DECISION: Final = {
    (TransactionState.PREPARE_COMMIT, True): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.PREPARE_ABORT, False): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.COMPLETE_COMMIT, True): ErrorCode.NONE,
    (TransactionState.COMPLETE_ABORT, False): ErrorCode.NONE,
}
"""The response to a retry by (state, committed): the same decision is confirmed; any other is INVALID_TXN_STATE."""

_COMPLETE: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


def end_transaction(
    table: TransactionTable,
    producer: ProducerIdentity,
    committed: bool,
    version: int,
    fresh_id: int | None,
    now_ms: int,
) -> Decided:
    """Decide an EndTxn. `fresh_id` is an unused producer id, None until one is known to be needed."""
    current = table.transactions.get(producer.transactional_id)
    if version < EPOCH_PER_TRANSACTION:
        error = check_producer(current, producer)
        if error or current is None:
            return None, Ended(error)
        return _end_in_the_same_epoch(current, committed, now_ms)
    error = _check_producer_or_retry(current, producer)
    if error or current is None:
        return None, Ended(error)
    if _is_retry(current, producer):
        return None, _answer_retry(current, committed)
    if current.state is not TransactionState.ONGOING and committed:
        return None, Ended(ErrorCode.INVALID_TXN_STATE)
    return _end_in_the_next_epoch(table, current, committed, fresh_id, now_ms)


def _end_in_the_same_epoch(current: Transaction, committed: bool, now_ms: int) -> Decided:
    if current.state is not TransactionState.ONGOING:
        return None, Ended(_AFTER_THE_DECISION.get((current.state, committed), ErrorCode.INVALID_TXN_STATE))
    ended = replace(
        current,
        state=_prepared(committed),
        updated_ms=now_ms,
        version=PLAIN,
        previous_producer_id=current.producer_id,
    )
    return ended, Ended(ErrorCode.NONE)


def _prepared(committed: bool) -> TransactionState:
    return TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT


def _is_retry(current: Transaction, producer: ProducerIdentity) -> bool:
    """True if the producer has the epoch, or the producer id, from before the last end of a transaction."""
    if current.version < EPOCH_PER_TRANSACTION or current.state in (TransactionState.ONGOING, TransactionState.EMPTY):
        return False  # no transaction was ended, or its end raised no epoch: the epoch is another producer's
    if current.producer_id == producer.producer_id:
        return current.producer_epoch == producer.producer_epoch + 1
    rotated = current.state in NO_OPEN_TRANSACTION and current.producer_epoch == 0
    return rotated and (current.previous_producer_id, LAST_EPOCH) == (producer.producer_id, producer.producer_epoch)


def _check_producer_or_retry(current: Transaction | None, producer: ProducerIdentity) -> ErrorCode:
    if current is not None and _is_retry(current, producer):
        # The epoch reserved for fencing, which no producer has: this one must request its next producer id.
        exhausted = current.producer_epoch == FENCING_EPOCH and current.state in NO_OPEN_TRANSACTION
        return ErrorCode.PRODUCER_FENCED if exhausted else ErrorCode.NONE
    error = check_producer(current, producer)
    prepared = current is not None and current.state in PREPARED
    # The request ends the next transaction, which is possible once the markers of this one are written.
    return ErrorCode.CONCURRENT_TRANSACTIONS if prepared and not error else error


def _answer_retry(current: Transaction, committed: bool) -> Ended:
    error = _AFTER_THE_DECISION.get((current.state, committed), ErrorCode.INVALID_TXN_STATE)
    return Ended(error) if error else Ended(error, current.producer_id, current.producer_epoch)


def _end_in_the_next_epoch(
    table: TransactionTable, current: Transaction, committed: bool, fresh_id: int | None, now_ms: int
) -> Decided:
    exhausted = current.producer_epoch >= LAST_EPOCH
    if exhausted and fresh_id is None:
        return None, NeedsProducerId()
    epoch = current.producer_epoch + 1
    begun = current.state is TransactionState.ONGOING
    ended = replace(
        current,
        producer_epoch=epoch,
        state=_prepared(committed),
        start_ms=current.start_ms if begun else now_ms,
        updated_ms=now_ms,
        version=EPOCH_PER_TRANSACTION,
        previous_producer_id=current.producer_id,
        next_producer_id=fresh_id if exhausted and fresh_id is not None else NO_PRODUCER_ID,
    )
    table.predecessors[current.transactional_id] = Predecessor(current.producer_id, current.producer_epoch)
    next_producer = (ended.next_producer_id, 0) if exhausted else (ended.producer_id, epoch)
    return ended, Ended(ErrorCode.NONE, *next_producer)


def complete(table: TransactionTable, ended: Transaction, now_ms: int) -> Transaction | None:
    """Returns the next state once all partitions of `ended` have their markers; None when it is already completed."""
    current = table.transactions.get(ended.transactional_id)
    if current is None or current != ended:  # the producer's next transaction may have the same epoch, and be decided
        return None
    rotates = current.next_producer_id != NO_PRODUCER_ID
    return replace(
        current,
        producer_id=current.next_producer_id if rotates else current.producer_id,
        producer_epoch=0 if rotates else current.producer_epoch,
        state=_COMPLETE[current.state],
        partitions={},
        updated_ms=now_ms,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
