"""The snapshots of the metadata log on this node's disk: writes, downloads, reads and deletes them.

Each is a separate log in the store (`partitions/metadata_log.py`). One property of the store lists the complete
snapshots, so that a start need not search for them:

    written or downloaded, synced ─► listed in the property: it exists ─► log truncated below it
    removed from the property ─► deleted

A snapshot that a crash leaves unlisted is deleted when the next one is begun.
"""

import json
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.quorum.values import SnapshotId
from odradek.coordinator.quorum.voters import VoterSet
from odradek.gateway.env.environment import Environment
from odradek.gateway.errors import StartError
from odradek.partitions.metadata_log import METADATA_TOPIC, snapshot_key, snapshot_of
from odradek.partitions.model import LogWrite, StoredBatch
from odradek.storage_backends.interface import LogPolicy, PartitionStore, Store, StoreError
from odradek.wire.records.batch import iter_headers, parse_header
from odradek.wire.records.errors import InvalidRecordBatch
from odradek.wire.values import immutable

if TYPE_CHECKING:  # imported with the first snapshot read or written, so that a broker starts faster
    from odradek.coordinator.metadata.image.checkpoint import SnapshotReader
    from odradek.gateway.quorum.staging import Staging

log = logging.getLogger(__name__)

T = TypeVar("T")

PROPERTY: Final = "metadata.snapshots"
COMMIT_BYTES: Final = 1 << 20
READ_BYTES: Final = 1 << 20
POLICY: Final = LogPolicy()


@immutable
class Kept:
    """A complete snapshot: its length, and the timestamp of its last record."""

    size_bytes: int
    last_timestamp_ms: int


class Snapshots:
    """The snapshots of one node. Methods that wait raise StoreError."""

    def __init__(self, store: Store, env: Environment) -> None:
        self._store = store
        self._env = env
        self._known: dict[SnapshotId, Kept] = {}
        self._reading = trio.Lock()
        self._listing = trio.Lock()
        self._beginning = trio.Lock()
        self._index: tuple[SnapshotId, list[int], list[int]] | None = None
        self._staging: Staging | None = None
        self._writing: SnapshotId | None = None

    @property
    def known(self) -> Mapping[SnapshotId, Kept]:
        """The complete snapshots, the oldest first."""
        return self._known

    @property
    def newest(self) -> SnapshotId | None:
        """The newest complete snapshot."""
        return next(reversed(self._known), None)

    def at(self, end_offset: int) -> SnapshotId | None:
        """The complete snapshot with this end offset."""
        return next((each for each in self._known if each.end_offset == end_offset), None)

    async def open(self, properties: Mapping[str, str]) -> None:
        """Load the list from the store's properties, without those whose logs were removed from the store since.

        Raises StartError if it cannot be read.
        """
        text = properties.get(PROPERTY, "[]")
        try:
            found = {
                SnapshotId(int(each["endOffset"]), int(each["epoch"])): Kept(int(each["size"]), int(each["timestamp"]))
                for each in json.loads(text)
            }
        except (ValueError, KeyError, TypeError) as error:
            raise StartError(f"the store's property {PROPERTY} is damaged: {text!r}") from error
        held = await self._env.run_blocking(partial(_held, self._store, sorted(found))) if found else []
        self._known = {each: found[each] for each in held}
        if len(held) < len(found):
            log.warning("snapshots of the metadata are missing count=%d", len(found) - len(held))

    async def find(self) -> None:
        """Search the store for complete snapshots, after the property that lists them was lost.

        Raises ProtocolError for a snapshot of a newer version.
        """
        self._known = dict(sorted((await self._env.run_blocking(partial(find_snapshots, self._store))).items()))
        await self._write_property()

    # Writing

    async def write(self, image: MetadataImage, last_timestamp_ms: int, voters: VoterSet | None = None) -> SnapshotId:
        """Write the snapshot of a published image, with the voters in the log below its end; durable on return."""
        from odradek.coordinator.metadata.image.checkpoint import snapshot_batches
        from odradek.coordinator.quorum.voter_records import version_record, voters_record

        snapshot = SnapshotId(image.offset + 1, max(image.epoch, 0))
        if snapshot not in self._known:
            async with self._beginning:
                if self._staging is not None and self._staging.key == snapshot_key(*snapshot):
                    await self._drop_staged()
                await self._drop_unlisted()
                self._writing = snapshot
            try:
                about = () if voters is None else (version_record(), voters_record(voters))
                batches = snapshot_batches(image, last_timestamp_ms, about)
                size_bytes = await self._env.run_blocking(partial(_write, self._store, snapshot, batches))
            finally:
                self._writing = None
            await self._add(snapshot, Kept(size_bytes, last_timestamp_ms))
        return snapshot

    async def stage(self, snapshot: SnapshotId, position: int, data: bytes, size_bytes: int) -> bool:
        """Store a downloaded part that begins at `position`; True if the snapshot is then complete.

        Parts are stored one after the other, in the order of the calls: parts of a dropped download must not get into a
        new one of the same snapshot. Raises InvalidRecordBatch and ProtocolError for data that is not a snapshot, or
        does not continue the last part.
        """
        from odradek.gateway.quorum.staging import Staging

        async with self._beginning:
            if position == 0:
                await self._drop_staged()
                await self._drop_unlisted()
                self._staging = Staging(self._store, snapshot_key(*snapshot), POLICY)
            staging = self._staging
            if staging is None or staging.key != snapshot_key(*snapshot):
                raise InvalidRecordBatch(f"the download of snapshot {snapshot} was dropped")
            writes = staging.take(position, data, size_bytes)
            await self._env.run_blocking(partial(staging.commit, writes))
            return staging.is_whole

    async def keep_staged(self, snapshot: SnapshotId) -> None:
        """Make the completely staged download a snapshot, durably."""
        if snapshot in self._known:
            return
        staging = self._staging
        assert staging is not None
        assert staging.is_whole
        await self._add(snapshot, Kept(staging.reader.size_bytes, staging.reader.last_timestamp_ms))
        self._staging = None

    async def _drop_staged(self) -> None:
        staging, self._staging = self._staging, None
        if staging is not None:
            await self._env.run_blocking(partial(self._store.delete, staging.key))

    async def _drop_unlisted(self) -> None:
        """Delete unlisted snapshots. The caller holds `_beginning`: one begun meanwhile would be deleted, too."""
        listed = {snapshot_key(*each) for each in self._known}
        if self._staging is not None:
            listed.add(self._staging.key)
        if self._writing is not None:
            listed.add(snapshot_key(*self._writing))
        await self._env.run_blocking(partial(_drop_others, self._store, listed))

    async def drop_before(self, end_offset: int) -> None:
        """Delete the snapshots that end before `end_offset`."""
        dropped = [each for each in self._known if each.end_offset < end_offset]
        if not dropped:
            return
        for each in dropped:
            del self._known[each]
        await self._write_property()
        async with self._reading:
            for each in dropped:
                await self._env.run_blocking(partial(self._store.delete, snapshot_key(*each)))

    async def _add(self, snapshot: SnapshotId, kept: Kept) -> None:
        self._known = dict(sorted({**self._known, snapshot: kept}.items()))
        try:
            await self._write_property()
        except BaseException:
            del self._known[snapshot]
            raise

    async def _write_property(self) -> None:
        async with self._listing:  # a list that was made earlier must not be written later
            listed = [
                {
                    "endOffset": at.end_offset,
                    "epoch": at.epoch,
                    "size": kept.size_bytes,
                    "timestamp": kept.last_timestamp_ms,
                }
                for at, kept in self._known.items()
            ]
            await self._env.run_blocking(partial(self._store.set_properties, {PROPERTY: json.dumps(listed)}))

    # Reading

    async def load(self, snapshot: SnapshotId, before: MetadataImage | None) -> "SnapshotReader":
        """Read a snapshot on top of an empty image, which is `before` if given. Not `is_whole` if its end is missing.

        Raises InvalidRecordBatch and ProtocolError, see `SnapshotReader`.
        """
        from odradek.coordinator.metadata.image.checkpoint import SnapshotReader

        reader = SnapshotReader(before)
        offset = 0
        while not reader.is_whole:
            read = await self._borrow(snapshot, partial(_read_from, offset=offset, max_bytes=READ_BYTES))
            for header in iter_headers(read):
                reader.add(read[header.position : header.end_position])
                offset = header.next_offset
                await trio.lowlevel.checkpoint()
            if not read:
                break
        return reader

    async def voters(self, snapshot: SnapshotId) -> VoterSet | None:
        """The voters in a complete snapshot; None if the settings contain the voters."""
        return await self._borrow(snapshot, _voters_in)

    async def part(self, snapshot: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Up to `max_bytes` of a complete snapshot from `position` on, which must be within it."""
        positions, offsets = await self._batches_of(snapshot)
        at = bisect_right(positions, position) - 1
        skip = position - positions[at]
        read = await self._borrow(snapshot, partial(_read_from, offset=offsets[at], max_bytes=skip + max_bytes))
        return read[skip : skip + max_bytes]

    async def _batches_of(self, snapshot: SnapshotId) -> tuple[list[int], list[int]]:
        """The byte position and the base offset of each batch."""
        if self._index is None or self._index[0] != snapshot:
            positions, offsets = await self._borrow(snapshot, _index_of)
            self._index = (snapshot, positions, offsets)
        return self._index[1], self._index[2]

    async def _borrow(self, snapshot: SnapshotId, use: Callable[[PartitionStore], T]) -> T:
        def call() -> T:
            part = self._store.open(snapshot_key(*snapshot), POLICY)
            try:
                return use(part)
            finally:
                part.close()

        async with self._reading:
            return await self._env.run_blocking(call)


def _held(store: Store, snapshots: Iterable[SnapshotId]) -> list[SnapshotId]:
    return [each for each in snapshots if store.holds(snapshot_key(*each))]


def _write(store: Store, snapshot: SnapshotId, batches: Iterable[bytes]) -> int:
    part = store.open(snapshot_key(*snapshot), POLICY)
    written = 0
    try:
        pending: list[StoredBatch] = []
        size_bytes = 0
        for data in batches:
            header = parse_header(data)
            pending.append(StoredBatch(header.base_offset, header.last_offset, header.max_timestamp, data))
            size_bytes += len(data)
            if size_bytes >= COMMIT_BYTES:
                part.commit([LogWrite(pending)], sync=True)
                written, pending, size_bytes = written + size_bytes, [], 0
        part.commit([LogWrite(pending)], sync=True)
    finally:
        part.close()
    return written + size_bytes


def _drop_others(store: Store, listed: Iterable[object]) -> None:
    for key in store.partitions():
        if snapshot_of(key) is not None and key not in listed:
            store.delete(key)


def find_snapshots(store: Store) -> dict[SnapshotId, Kept]:
    """The complete snapshots in a store, listed or not. Blocks. Raises StoreError, ProtocolError."""
    found: dict[SnapshotId, Kept] = {}
    for key in store.partitions():
        about = snapshot_of(key) if key.topic == METADATA_TOPIC else None
        if about is None:
            continue
        snapshot = SnapshotId(*about)
        try:
            reader = read_snapshot(store, snapshot)
        except (StoreError, InvalidRecordBatch) as error:
            log.warning("passing over a damaged snapshot end_offset=%d epoch=%d cause=%s", *about, error)
        else:
            if reader.is_whole:
                found[snapshot] = Kept(reader.size_bytes, reader.last_timestamp_ms)
    return found


def read_snapshot(store: Store, snapshot: SnapshotId) -> "SnapshotReader":
    """Read a snapshot as far as it is readable. Blocks. Raises StoreError, InvalidRecordBatch, ProtocolError."""
    from odradek.coordinator.metadata.image.checkpoint import SnapshotReader

    reader = SnapshotReader()
    part = store.open(snapshot_key(*snapshot), POLICY)
    try:
        for chunk in chunks_of(part):
            reader.add(chunk)
    finally:
        part.close()
    return reader


def read_voters(store: Store, snapshot: SnapshotId) -> VoterSet | None:
    """The voters in a complete snapshot, None if it has none. Blocks. Raises as `read_snapshot`."""
    part = store.open(snapshot_key(*snapshot), POLICY)
    try:
        return _voters_in(part)
    finally:
        part.close()


def _voters_in(part: PartitionStore) -> VoterSet | None:
    from odradek.coordinator.quorum.voter_records import voters_of

    first = _read_from(part, offset=0, max_bytes=1)
    return next((at.voters for at in voters_of(first)), None)


def chunks_of(part: PartitionStore) -> Iterator[bytes]:
    """The batches of a snapshot's log, copied. Blocks. Raises StoreError, InvalidRecordBatch."""
    offset = 0
    while chunk := _read_from(part, offset, READ_BYTES):
        yield chunk
        for header in iter_headers(chunk):
            offset = header.next_offset


def _read_from(part: PartitionStore, offset: int, max_bytes: int) -> bytes:
    """Whole batches from the one at `offset` on: at least `max_bytes`, or all there are."""
    end = part.load().log_end_offset
    read = bytearray()
    while offset < end and len(read) < max_bytes:
        lease = part.read(offset, end, max_bytes - len(read))
        try:
            for chunk in lease.chunks:
                read += chunk
                for header in iter_headers(chunk):
                    offset = header.next_offset
        finally:
            lease.release()
    return bytes(read)


def _index_of(part: PartitionStore) -> tuple[list[int], list[int]]:
    positions: list[int] = []
    offsets: list[int] = []
    position = 0
    for chunk in chunks_of(part):
        for header in iter_headers(chunk):
            positions.append(position + header.position)
            offsets.append(header.base_offset)
        position += len(chunk)
    return positions, offsets
