"""Applies records to the state: the only code that changes durable state, both at a restart and in operation."""

from odradek.coordinator.contract import ShardRecord
from odradek.coordinator.transactions.records import decode_id, decode_transaction
from odradek.coordinator.transactions.state import PREPARED, TRANSITIONS, TransactionState
from odradek.coordinator.transactions.table import Transaction, TransactionTable


def replay(table: TransactionTable, record: ShardRecord) -> None:
    """Apply one record; unknown kinds of records are ignored."""
    transactional_id = decode_id(record.key)
    if transactional_id is None:
        return
    table.unfinished.pop(transactional_id, None)
    if record.value is None:
        table.transactions.pop(transactional_id, None)
        table.predecessors.pop(transactional_id, None)
        return
    before = table.transactions.get(transactional_id)
    after = decode_transaction(transactional_id, record.value)
    table.transactions[transactional_id] = after
    if after.state in PREPARED:
        table.unfinished[transactional_id] = None
    elif after.state is TransactionState.ONGOING and not _is_timed(before, after):
        table.add_deadline(after)


def _is_timed(before: Transaction | None, after: Transaction) -> bool:
    if before is None or before.state is not TransactionState.ONGOING:
        return False
    return before.deadline_ms == after.deadline_ms


def check_transition(before: Transaction | None, after: Transaction | None) -> None:
    """Assert that `after` may follow `before`. Not part of `replay`, because compaction leaves gaps in a log."""
    allowed = TRANSITIONS[None if before is None else before.state]
    target = None if after is None else after.state
    assert target in allowed, f"{before} -> {after}"
