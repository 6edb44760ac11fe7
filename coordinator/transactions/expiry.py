"""Aborts transactions that exceed their time-out, and removes unused transactional ids."""

from itertools import islice
from typing import Final

from odradek.coordinator.transactions.init import fence
from odradek.coordinator.transactions.state import NO_OPEN_TRANSACTION
from odradek.coordinator.transactions.table import Transaction, TransactionTable

AT_ONCE: Final = 500
"""How many ids one operation aborts, and how many it removes: a few milliseconds' work."""

RETRY_MS: Final = 60_000
"""The pause before a transaction is aborted again whose record was too large to be written."""


def time_out(table: TransactionTable, now_ms: int) -> list[Transaction]:
    """Returns the next states of ids whose transaction has exceeded its producer's time-out; the rest stays due."""
    fenced: dict[str, Transaction] = {}
    while len(fenced) < AT_ONCE and (late := table.pop_timed_out(now_ms)) is not None:
        fenced[late.transactional_id] = fence(table, late, now_ms)
    return list(fenced.values())


def postpone(table: TransactionTable, transactional_id: str, now_ms: int) -> None:
    """Let an open transaction time out once more, after a pause."""
    transaction = table.transactions.get(transactional_id)
    if transaction is not None:
        table.postpone(transaction, now_ms + RETRY_MS)


def expired_ids(table: TransactionTable, now_ms: int) -> list[str]:
    """Returns ids unused for `transactional.id.expiration.ms`; none before the cleanup interval has passed.

    If there are AT_ONCE of them, the search stays due.
    """
    if table.expiry_due_ms is None or now_ms < table.expiry_due_ms:
        return []
    oldest_ms = now_ms - table.config.transactional_id_expiration_ms
    expired = (
        transactional_id
        for transactional_id, transaction in table.transactions.items()
        if transaction.state in NO_OPEN_TRANSACTION and transaction.updated_ms <= oldest_ms
    )
    found = list(islice(expired, AT_ONCE))
    if len(found) < AT_ONCE:
        schedule_expiry(table, now_ms)
    return found


def schedule_expiry(table: TransactionTable, now_ms: int) -> None:
    """Schedule the next search for expired ids after the cleanup interval."""
    table.expiry_due_ms = now_ms + table.config.transaction_remove_expired_transaction_cleanup_interval_ms
