"""InitProducerId, versions 0 to 5, for a transactional id: the new producer's epoch fences the previous producer."""

from dataclasses import replace
from typing import Final, NamedTuple

from odradek.coordinator.transactions.state import PREPARED, TransactionState
from odradek.coordinator.transactions.table import NO_PREDECESSOR, NO_TIME, Predecessor, Transaction, TransactionTable
from odradek.coordinator.transactions.version import EPOCH_PER_TRANSACTION, PLAIN
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.wire.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

LAST_EPOCH: Final = 2**15 - 2
"""The last epoch of a producer id, after which another id is assigned; the epoch above is reserved for fencing."""
FENCING_EPOCH: Final = LAST_EPOCH + 1


class NeedsProducerId(NamedTuple):
    """The reply to a request that needs an unused producer id: call the operation again with one."""


Decided = tuple[Transaction | None, InitProducerIdResponse | NeedsProducerId]
"""The id's next state, None if it does not change, and the reply."""


def init_producer_id(
    table: TransactionTable, request: InitProducerIdRequest, fresh_id: int | None, now_ms: int
) -> Decided:
    """Decide an InitProducerId. `fresh_id` is an unused producer id, None until one is known to be needed."""
    assert request.transactional_id is not None
    if not 0 < request.transaction_timeout_ms <= table.config.transaction_max_timeout_ms:
        return refuse(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    current = table.transactions.get(request.transactional_id)
    if current is None:
        return _begin(request, fresh_id, now_ms)
    if not _may_initialise(table, current, request):
        return refuse(ErrorCode.PRODUCER_FENCED)
    if current.state in PREPARED:
        return refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is TransactionState.ONGOING:
        return fence(table, current, now_ms), refuse(ErrorCode.CONCURRENT_TRANSACTIONS)[1]
    return _take_over(table, current, request, fresh_id, now_ms)


def refuse(error: ErrorCode) -> Decided:
    """Returns a response with `error`, and no change of state."""
    return None, InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


def fence(table: TransactionTable, ongoing: Transaction, now_ms: int) -> Transaction:
    """Abort a transaction that its producer has not ended, in an epoch that fences the producer.

    In a cluster that raises the epoch with every transaction, a fenced producer may continue with the new epoch until
    another producer initialises the id. So its old epoch is kept as the predecessor.

    A transaction in the fencing epoch itself, stored by an earlier version, keeps it: there is none above. Its markers
    then follow the rules that allow an unchanged epoch.
    """
    can_rise = ongoing.producer_epoch < FENCING_EPOCH
    bumps = can_rise and table.level() >= EPOCH_PER_TRANSACTION
    before = Predecessor(ongoing.producer_id, ongoing.producer_epoch) if bumps else NO_PREDECESSOR
    table.predecessors[ongoing.transactional_id] = before
    return replace(
        ongoing,
        producer_epoch=ongoing.producer_epoch + 1 if can_rise else FENCING_EPOCH,
        state=TransactionState.PREPARE_ABORT,
        updated_ms=now_ms,
        version=EPOCH_PER_TRANSACTION if bumps else PLAIN,
        previous_producer_id=ongoing.producer_id,
    )


def _names_producer(request: InitProducerIdRequest) -> bool:
    """True if the request contains the current producer id and epoch, to raise the epoch after an error (KIP-360)."""
    return request.producer_id != NO_PRODUCER_ID


def _may_initialise(table: TransactionTable, current: Transaction, request: InitProducerIdRequest) -> bool:
    if not _names_producer(request) or request.producer_id == current.producer_id:
        return True
    before = table.predecessors.get(current.transactional_id, NO_PREDECESSOR)
    return request.producer_id == before.producer_id and request.producer_epoch >= LAST_EPOCH


def _begin(request: InitProducerIdRequest, fresh_id: int | None, now_ms: int) -> Decided:
    if fresh_id is None:
        return None, NeedsProducerId()
    assert request.transactional_id is not None
    fresh = Transaction(
        request.transactional_id,
        fresh_id,
        0,
        request.transaction_timeout_ms,
        TransactionState.EMPTY,
        {},
        NO_TIME,
        now_ms,
        previous_producer_id=fresh_id,
    )
    return fresh, InitProducerIdResponse(producer_id=fresh_id, producer_epoch=0)


def _empty(current: Transaction, producer_id: int, epoch: int, timeout_ms: int, now_ms: int) -> Decided:
    emptied = replace(
        current,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions={},
        start_ms=NO_TIME,
        updated_ms=now_ms,
        previous_producer_id=current.producer_id,
    )
    return emptied, InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


def _take_over(
    table: TransactionTable, current: Transaction, request: InitProducerIdRequest, fresh_id: int | None, now_ms: int
) -> Decided:
    """Assign the next epoch, or after the last epoch the next producer id; a retry gets the first response again."""
    transactional_id, timeout_ms = current.transactional_id, request.transaction_timeout_ms
    named = _names_producer(request)
    producer_id, epoch = current.producer_id, current.producer_epoch
    retry = named and _is_retry(table, current, request)
    if named and not retry and request.producer_epoch != epoch:
        return refuse(ErrorCode.PRODUCER_FENCED)
    if retry and epoch != FENCING_EPOCH:
        return _empty(current, producer_id, epoch, timeout_ms, now_ms)
    if epoch < LAST_EPOCH:
        epoch += 1
    elif fresh_id is None:
        return None, NeedsProducerId()
    else:
        producer_id, epoch = fresh_id, 0
    before = Predecessor(current.producer_id, current.producer_epoch) if named else NO_PREDECESSOR
    table.predecessors[transactional_id] = before
    return _empty(current, producer_id, epoch, timeout_ms, now_ms)


def _is_retry(table: TransactionTable, current: Transaction, request: InitProducerIdRequest) -> bool:
    """True if the request contains the epoch before the current one, because its response was lost."""
    if request.producer_epoch == current.producer_epoch:
        return False
    return request.producer_epoch == table.predecessors.get(current.transactional_id, NO_PREDECESSOR).producer_epoch
