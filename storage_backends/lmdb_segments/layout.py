"""The files of an LMDB store and their contents, as other processes that read sealed segments (Spark), and recovery
after a crash, rely on.

    <store>/format                        "odradek-lmdb 1"
    <store>/lock                          flock()ed by the process that has the store open; contains its process id
    <store>/properties.json               the named values
    <store>/reserve                       allocated blocks without content, for a full disk (see `reserve`)
    <store>/<topic>-<index>.<topic id>/   one directory per partition; the id in base64url, as Kafka prints it
        00000000000000000000.lmdb         one LMDB environment (a plain file) per segment, named by its base offset
        00000000000000000000.unsynced     beside a segment that is written without syncs: the boot it belongs to

Names that end in `.new` (unfinished), `.truncated` and `.cleaned` (a truncation, or a replacement of segments by a
compacted one, that is decided but not finished, see `recovery` and `cleaning`), `.deleted` and `-lock` (LMDB's lock
file, see `reader_table`) are completed or removed when the store or partition is next
opened.

A partition's directory whose name ends in `-stray` (`-stray2`, … if that name is taken) was set aside because its topic
is not in the metadata, or because it was damaged. It stays until the user restores or deletes it.

The segment with the highest base offset is the active one. All others are sealed: synced, and never written again; a
truncation into one, or compaction, replaces the file. Other processes may open them with `readonly=True, lock=False`.

Inside a segment, integers are big-endian so that keys sort by value:

    database "log"    last offset (u64) of the value's batches → one or more whole record batches, one after the other
    main database "m" → the segment's meta; and rows whose first byte is their kind:
        "c" → clean offset u64: the log below it has been compacted
        "a" last offset u64, producer id u64 → first offset, last stable offset: an aborted transaction
        "e" leader epoch u32 → start offset
        "g" base offset of the last of them u64 → CRC32C u32 of what follows: the gaps of one transaction, each as the
            end of the batch before it u64 and the base offset after it u64; only in a segment written without syncs
        "p" producer id u64 → log end offset after the write that set it, then the state, opaque
        "s" base offset u64 → end offset, bytes, max timestamp: a sealed segment that is still kept
        "t" max timestamp u64 so far → key in "log" of the value that reached it (sparse)

The log is keyed by *last* offset: the first key not below an offset then belongs to the value that contains it, and if
a key is below an end offset, so is the whole value; neither requires reading values. Every new segment starts with its
predecessor's rows a, c, e, p and s, so that the active segment alone has the state of the log. A compacted segment has
the rows c, e and p of the last segment that it replaces, and only the rows a of transactions that end in it.
"""

import re
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from odradek.partitions.model import PartitionKey

FORMAT_NAME = "odradek-lmdb"
FORMAT_VERSION = 1
FORMAT_FILE = "format"
LOCK_FILE = "lock"
PROPERTIES_FILE = "properties.json"
RESERVE_FILE = "reserve"
TOPIC_FILE = "topic"

SEGMENT_SUFFIX = ".lmdb"
UNSYNCED_SUFFIX = ".unsynced"
NEW_SUFFIX = ".new"
TRUNCATED_SUFFIX = ".truncated"
CLEANED_SUFFIX = ".cleaned"
DELETED_SUFFIX = ".deleted"
LOCK_SUFFIX = "-lock"
STRAY_SUFFIX = "-stray"

LOG_DB = b"log"
META_KEY = b"m"

U64 = Struct(">Q")
PAIR = Struct(">qq")
EXTENT = Struct(">QQq")
ABORTED_KEY = Struct(">cQq")
EPOCH_KEY = Struct(">cI")
CHECKSUM = Struct(">I")
GAP_PAIR = Struct(">QQ")
ROW_KEY = Struct(">cQ")
ABORTED, CLEAN, EPOCH, GAPS, PRODUCER, SEALED, TIME = b"a", b"c", b"e", b"g", b"p", b"s", b"t"

_META = Struct(">HHqqqqqqq")
_PARTITION_NAME = re.compile(r".+-\d+\.[\w-]{22}(-stray\d*)?", re.ASCII)
_STRAY_NAME = re.compile(r"(?P<name>.+\.[\w-]{22})-stray\d*", re.ASCII)
_SEGMENT_NAME = re.compile(r"\d{20}\.lmdb", re.ASCII)
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)\.", re.ASCII | re.IGNORECASE)
_MAX_TOPIC_IN_NAME = 180
_SHORTENED = _ESCAPE = "~"
_IS_WINDOWS = sys.platform == "win32"


class SegmentMeta(NamedTuple):
    """The meta row: the state of the segment and, in the active one, of the log.

    `size_bytes` counts the batches, `max_timestamp_ms` is theirs; `first_timestamp_ms` is the first batch's max
    timestamp; `indexed_bytes` was `size_bytes` at the last time index row.
    """

    base_offset: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int = 0
    first_timestamp_ms: int = -1
    max_timestamp_ms: int = -1
    indexed_bytes: int = 0

    def pack(self) -> bytes:
        """Return the row's value."""
        return _META.pack(FORMAT_VERSION, 0, *self)


def unpack_meta(value: bytes) -> tuple[int, SegmentMeta | None]:
    """Return the format version of the row, and the row if the version is supported."""
    version = int.from_bytes(value[:2], "big")
    if version != FORMAT_VERSION or len(value) != _META.size:
        return version, None
    return version, SegmentMeta(*_META.unpack(value)[2:])


def segment_name(base_offset: int) -> str:
    """Return the file name of the segment that starts there."""
    return f"{base_offset:020d}{SEGMENT_SUFFIX}"


def unsynced_name(base_offset: int) -> str:
    """Return the name of the file that marks the segment as written without syncs."""
    return f"{base_offset:020d}{UNSYNCED_SUFFIX}"


def segment_bases(directory: Path) -> list[int]:
    """Return the base offsets of the segments in a partition's directory, in order. Raises OSError."""
    return sorted(int(each.stem) for each in directory.iterdir() if _SEGMENT_NAME.fullmatch(each.name))


def partition_dir_name(key: PartitionKey) -> str:
    """Return the directory name of a partition. Names of different topics differ also where case does not count, since
    each has the topic's id.

    A topic's name may be as long as a file name may be. Then it is truncated here, and the file `topic` contains all of
    it.
    """
    topic_id = urlsafe_b64encode(key.topic_id.bytes).decode().rstrip("=")
    topic = key.topic if len(key.topic) <= _MAX_TOPIC_IN_NAME else key.topic[:_MAX_TOPIC_IN_NAME] + _SHORTENED
    return f"{topic}-{key.index}.{topic_id}"


def partition_path(store: Path, key: PartitionKey) -> Path:
    """Return the directory of a partition in a store. Windows takes a name that begins like `con.` for a device, so
    such a name gets a `~` before it, which is in no topic's name. A directory without it, which an earlier version has
    made on another system, is used as it is.
    """
    path = store / partition_dir_name(key)
    if _DEVICE.match(path.name) is None or (not _IS_WINDOWS and path.exists()):
        return path
    return path.with_name(_ESCAPE + path.name)


def is_shortened(key: PartitionKey) -> bool:
    """True if the directory's name has only a part of the topic's name."""
    return len(key.topic) > _MAX_TOPIC_IN_NAME


def parse_partition_dir(directory: Path) -> PartitionKey:
    """Return the partition that a directory belongs to. Raises ValueError if it does not have the form of a partition's
    name, OSError if the file `topic` cannot be read.
    """
    stray = _STRAY_NAME.fullmatch(directory.name)
    name, _, topic_id = (stray["name"] if stray else directory.name).rpartition(".")
    topic, _, index = name.removeprefix(_ESCAPE).rpartition("-")
    if not topic:
        raise ValueError(f"{directory.name} is not <topic>-<index>.<topic id>")
    if topic.endswith(_SHORTENED):
        short, topic = topic, (directory / TOPIC_FILE).read_text(encoding="ascii")
        if topic[:_MAX_TOPIC_IN_NAME] + _SHORTENED != short or len(topic) <= _MAX_TOPIC_IN_NAME:
            raise ValueError(f"its file {TOPIC_FILE!r} does not hold the topic's name")
    return PartitionKey(topic, UUID(bytes=urlsafe_b64decode(topic_id + "==")), int(index))


def is_partition_name(name: str) -> bool:
    """True if a directory's name has the form of a partition's, strays included."""
    return _PARTITION_NAME.fullmatch(name) is not None


def is_stray(directory: Path) -> bool:
    """True if the directory was set aside."""
    return _STRAY_NAME.fullmatch(directory.name) is not None


def partition_dirs(store: Path) -> Iterator[Path]:
    """Yield the partitions' directories of a store, without those unfinished, deleted or set aside. Raises OSError."""
    for entry in store.iterdir():
        passed_over = entry.suffix in (NEW_SUFFIX, DELETED_SUFFIX) or entry.name == "lost+found" or is_stray(entry)
        if not passed_over and entry.is_dir():
            yield entry
