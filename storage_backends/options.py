"""The options with which a store is opened; the defaults are measured ones (see `benchmarks/store_commit.py`)."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odradek.wire.values import immutable

if TYPE_CHECKING:  # imported for type checking only, so that a broker starts faster
    from odradek.storage_backends.interface import ProducerRebuilder

_PAGE_BYTES = 4096
_PAGE_HEADER_BYTES = 16


@immutable
class StoreOptions:
    """Limits and sizes of a store; a backend ignores those that it does not need. `max_value_bytes` is the size up to
    which the batches of one commit are joined into one stored value: values take whole pages, so the best sizes are
    just below a multiple of them. `hot_bytes` is how much of a log's end counts as recently written
    (`PartitionStore.is_hot`). `lending_map_bytes` is the size of a growing file's map from which on its pages are lent;
    below it readers get copies. `max_open_files` limits the descriptors of open logs, except for those in use; the
    maximum is a quarter of the process's limit, and the default is that maximum or 30,000, whichever is lower.
    `producer_rebuilder` makes a rebuilder from producers' rows, and raises ValueError if it cannot read one; without
    it, a log from which a power cut took these rows forgets its producers and open transactions.
    """

    max_value_bytes: int = 64 * _PAGE_BYTES - _PAGE_HEADER_BYTES
    time_index_interval_bytes: int = 64 * 1024
    hot_bytes: int = 32 * 1024 * 1024
    map_slack_bytes: int = 64 * 1024 * 1024
    lending_map_bytes: int = 16 * 1024 * 1024
    max_leases_per_segment: int = 128
    max_open_files: int | None = None
    producer_rebuilder: "Callable[[Mapping[int, bytes]], ProducerRebuilder] | None" = None
