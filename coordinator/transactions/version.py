"""`transaction.version` (KIP-890, KIP-584): what a cluster, a request and a transaction can do.

A request's version says what its client can do, whatever the cluster's level; clients look at the finalized level
before they use such a version.
"""

from typing import Final

FEATURE: Final = "transaction.version"

PLAIN: Final = 0
"""An id's epoch is raised by InitProducerId only."""
TAGGED_RECORDS: Final = 1
"""From this level on records have tagged fields."""
EPOCH_PER_TRANSACTION: Final = 2
"""Every end of a transaction raises the epoch; producing and committing offsets lets partitions take part."""

HIGHEST: Final = EPOCH_PER_TRANSACTION
END_TXN_SINCE: Final = 5
"""EndTxn of this version and above belongs to EPOCH_PER_TRANSACTION."""


def version_of_end_txn(api_version: int) -> int:
    """What the client of an EndTxn can do."""
    return EPOCH_PER_TRANSACTION if api_version >= END_TXN_SINCE else PLAIN
