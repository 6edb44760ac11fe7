"""The feature `transaction.version` (KIP-890, KIP-584).

A request's version determines the level that its client uses, independently of the cluster's level; clients check the
finalized level before they use such a version.
"""

from typing import Final

FEATURE: Final = "transaction.version"

PLAIN: Final = 0
"""Only InitProducerId raises an id's epoch."""
TAGGED_RECORDS: Final = 1
"""From this level on records have tagged fields."""
EPOCH_PER_TRANSACTION: Final = 2
"""Every end of a transaction raises the epoch; Produce and TxnOffsetCommit add partitions."""

HIGHEST: Final = EPOCH_PER_TRANSACTION
END_TXN_SINCE: Final = 5
"""EndTxn of this version and above belongs to EPOCH_PER_TRANSACTION."""


def version_of_end_txn(api_version: int) -> int:
    """Returns the `transaction.version` that the client of an EndTxn uses."""
    return EPOCH_PER_TRANSACTION if api_version >= END_TXN_SINCE else PLAIN
