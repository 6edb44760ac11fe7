"""EndTxn, versions 0 to 4, and what follows when all markers are written."""

from dataclasses import replace
from typing import Final

from coordinator.transactions.add import Claim, check_claim
from coordinator.transactions.state import TransactionState
from coordinator.transactions.table import Transaction, TransactionTable
from wire.errors import ErrorCode

_AFTER_THE_DECISION: Final = {
    (TransactionState.PREPARE_COMMIT, True): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.PREPARE_ABORT, False): ErrorCode.CONCURRENT_TRANSACTIONS,
    (TransactionState.COMPLETE_COMMIT, True): ErrorCode.NONE,
    (TransactionState.COMPLETE_ABORT, False): ErrorCode.NONE,
}
"""(state, committed) to what a producer is told that asks again: its own decision stands, the other one is refused."""

_COMPLETE: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


def end_transaction(
    table: TransactionTable, claim: Claim, committed: bool, now_ms: int
) -> tuple[Transaction | None, ErrorCode]:
    """The id's next state, None where it stays, and the answer."""
    if not claim.transactional_id:
        return None, ErrorCode.INVALID_REQUEST
    current = table.transactions.get(claim.transactional_id)
    error = check_claim(current, claim)
    if error or current is None:
        return None, error
    if current.state is not TransactionState.ONGOING:
        return None, _AFTER_THE_DECISION.get((current.state, committed), ErrorCode.INVALID_TXN_STATE)
    state = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    return replace(current, state=state, updated_ms=now_ms), ErrorCode.NONE


def complete(table: TransactionTable, ended: Transaction, now_ms: int) -> Transaction | None:
    """All partitions of `ended` have their markers: the next state, None when that was known already."""
    current = table.transactions.get(ended.transactional_id)
    if current is None or (current.producer_id, current.producer_epoch) != (ended.producer_id, ended.producer_epoch):
        return None
    if current.state is not ended.state:
        return None
    return replace(current, state=_COMPLETE[current.state], partitions={}, updated_ms=now_ms)
