"""Reads LMDB's file format (data version 1) without mapping them, for files that LMDB must not map yet or at all.

A file is pages of one size. The first two are meta pages, written in turn: the newer one names the roots of the tree of
free pages and of the main tree. A named database is an entry of the main tree whose value is the record of another
tree. Branch and leaf pages are never changed in place: a transaction writes new ones and frees those that it replaces.
Values that are too large for a leaf are on consecutive overflow pages.

LMDB follows page numbers without checks, so a damaged file crashes the process. Here everything is checked, and
inconsistencies raise `DamageError`.
"""

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from odradek.storage_backends.system import open_to_read, read_at

HEADER: Final = Struct("=QHHHH")  # page number, padding, flags, end of the node offsets, start of the nodes
META: Final = Struct("=IIQQ")  # magic, version, address, map size; two tree records follow, then:
META_END: Final = Struct("=QQ")  # last page, transaction id
TREE: Final = Struct("=IHHQQQQQ")  # page size or padding, flags, depth, branch, leaf and overflow pages, entries, root
NODE: Final = Struct("=HHHH")  # low and high half of the size (or of a page number), flags, key size
PAGE_NUMBER: Final = Struct("=Q")

MAGIC: Final = 0xBEEFC0DE
VERSION: Final = 1
BRANCH, LEAF, META_PAGE = 1, 2, 8
BIG, SUBTREE = 1, 2
NO_PAGE: Final = 2**64 - 1
MAX_DEPTH: Final = 32

_META_BYTES: Final = HEADER.size + META.size + 2 * TREE.size + META_END.size
_PAGE_SIZES: Final = frozenset(1 << bits for bits in range(9, 17))


class DamageError(Exception):
    """The file is damaged; the message describes how."""


class Meta(NamedTuple):
    """A meta page: the transaction that wrote it, and the roots of the trees of free pages and of the main database."""

    page_bytes: int
    roots: tuple[int, int]
    last_page: int
    txn_id: int


class Extent(NamedTuple):
    """The position in the file of a value on overflow pages."""

    position: int
    size_bytes: int


Stored: TypeAlias = bytes | Extent
"""A value: its bytes if they are in the leaf, or their extent."""


def newest_meta(fd: int) -> Meta:
    """Read the newer of both meta pages; both have to be valid. Raises DamageError, OSError."""
    first = meta_at(fd, 0)
    second = meta_at(fd, first.page_bytes)
    return max(first, second, key=lambda meta: meta.txn_id)


def content_bytes(path: Path) -> int:
    """Return the size of the part of a file that its last transaction uses. Raises DamageError, OSError."""
    fd = open_to_read(path)
    try:
        meta = newest_meta(fd)
        return (meta.last_page + 1) * meta.page_bytes
    finally:
        os.close(fd)


def meta_at(fd: int, position: int) -> Meta:
    """Read the meta page at a position in the file. Raises DamageError, OSError."""
    data = read_at(fd, _META_BYTES, position)
    if len(data) < _META_BYTES:
        size_bytes = os.fstat(fd).st_size
        raise DamageError(f"it has {size_bytes} bytes, and its two meta pages alone take more")
    flags = HEADER.unpack_from(data)[2]
    magic, version, _, _ = META.unpack_from(data, HEADER.size)
    if not flags & META_PAGE or (magic, version & 0xFFFF) != (MAGIC, VERSION):
        raise DamageError(f"the meta page at byte {position} is not one of LMDB")
    trees = HEADER.size + META.size
    page_bytes, *_, free_root = TREE.unpack_from(data, trees)
    main_root = TREE.unpack_from(data, trees + TREE.size)[-1]
    if page_bytes not in _PAGE_SIZES:
        raise DamageError(f"the meta page at byte {position} gives a page size of {page_bytes}")
    return Meta(page_bytes, (free_root, main_root), *META_END.unpack_from(data, _META_BYTES - META_END.size))


def nodes(page: bytes, lower: int, upper: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield the nodes of a page: their positions, and their four fields. Raises DamageError."""
    for at in memoryview(page)[HEADER.size : lower].cast("H"):
        fields = NODE.unpack_from(page, at) if upper <= at <= len(page) - NODE.size else None
        if fields is None or at + NODE.size + fields[3] > len(page):
            raise DamageError("a row of it lies outside its page")
        yield at, *fields


def not_a_page(number: int, page: bytes) -> DamageError:
    """Return the error for a page of the wrong kind, or with the wrong number."""
    return DamageError(f"page {number} of {len(page)} bytes is not what LMDB wrote there")


class Pages:
    """The trees of one file as of one meta page; pages that were copied are not read again. The file's writer may reuse
    pages at any time: see `beside` for the pages that may be read when.
    """

    def __init__(self, fd: int, meta: Meta) -> None:
        self.meta = meta
        self._fd = fd
        self._copies: dict[int, bytes] = {}

    def page(self, number: int) -> bytes:
        """Return a branch or leaf page. Raises DamageError, OSError."""
        copied = self._copies.get(number)
        if copied is not None:
            return copied
        size_bytes = self.meta.page_bytes
        page = read_at(self._fd, size_bytes, number * size_bytes)
        if not 2 <= number <= self.meta.last_page or len(page) < size_bytes:
            raise DamageError(f"it refers to page {number}, which it does not have")
        own_number, _, flags, lower, upper = HEADER.unpack_from(page)
        if own_number != number or flags not in (BRANCH, LEAF) or not HEADER.size <= lower <= upper <= size_bytes:
            raise not_a_page(number, page)
        return page

    def copy(self, root: int, end: bytes) -> None:
        """Copy the pages of a tree with keys below `end`, without parsing leaves."""
        if root != NO_PAGE:
            self._copy(root, end, 1)

    def _copy(self, number: int, end: bytes, depth: int) -> None:
        page = self._copies[number] = self.page(number)
        if not is_branch(page):
            return
        _check_depth(depth)
        for key, child in children(page):
            if key >= end:
                return
            self._copy(child, end, depth + 1)

    def copy_last(self, root: int) -> None:
        """Copy the pages on the path to a tree's last entry: those that appending to it replaces."""
        depth = 1
        while root != NO_PAGE:
            page = self._copies[root] = self.page(root)
            _check_depth(depth)
            root, depth = (children(page)[-1][1], depth + 1) if is_branch(page) else (NO_PAGE, depth)

    def entries(self, root: int, start: bytes = b"") -> Iterator[tuple[bytes, Stored]]:
        """Yield a tree's entries from the key `start` on, in order of their keys. Raises DamageError, OSError."""
        if root != NO_PAGE:
            yield from self._entries(root, start, 1)

    def _entries(self, number: int, start: bytes, depth: int) -> Iterator[tuple[bytes, Stored]]:
        page = self.page(number)
        if not is_branch(page):
            yield from self._leaf(page, start)
            return
        _check_depth(depth)
        below = children(page)
        first = max(bisect_right(below, start, key=lambda child: child[0]) - 1, 0)
        for _, child in below[first:]:
            yield from self._entries(child, start, depth + 1)

    def _leaf(self, page: bytes, start: bytes) -> Iterator[tuple[bytes, Stored]]:
        lower, upper = HEADER.unpack_from(page)[3:]
        for at, low, high, flags, key_bytes in nodes(page, lower, upper):
            value = at + NODE.size + key_bytes
            key = page[at + NODE.size : value]
            if key < start:
                continue
            size_bytes = low | high << 16
            if flags & BIG:
                yield key, self._extent(page, value, size_bytes)
            elif value + size_bytes > len(page):
                raise DamageError("a row of it reaches beyond its page")
            else:
                yield key, page[value : value + size_bytes]

    def _extent(self, page: bytes, at: int, size_bytes: int) -> Extent:
        if at + PAGE_NUMBER.size > len(page):
            raise DamageError("a row of it reaches beyond its page")
        (number,) = PAGE_NUMBER.unpack_from(page, at)
        position = number * self.meta.page_bytes + HEADER.size
        if number < 2 or position + size_bytes > (self.meta.last_page + 1) * self.meta.page_bytes:
            raise DamageError(f"it refers to page {number}, which it does not have")
        return Extent(position, size_bytes)

    def floor(self, root: int, end: bytes) -> tuple[bytes, Stored] | None:
        """Return a tree's last entry with a key below `end`. Raises DamageError, OSError."""
        return self._floor(root, end, 1) if root != NO_PAGE else None

    def _floor(self, number: int, end: bytes, depth: int) -> tuple[bytes, Stored] | None:
        page = self.page(number)
        if not is_branch(page):
            return max((entry for entry in self._leaf(page, b"") if entry[0] < end), default=None, key=_key_of)
        _check_depth(depth)
        for key, child in reversed(children(page)):
            found = self._floor(child, end, depth + 1) if key < end else None
            if found is not None:
                return found
        return None

    def value(self, stored: Stored) -> bytes:
        """Return a value's bytes. Raises DamageError, OSError."""
        if isinstance(stored, bytes):
            return stored
        found = read_at(self._fd, stored.size_bytes, stored.position)
        if len(found) < stored.size_bytes:
            raise DamageError("it was cut short")
        return found


def is_branch(page: bytes) -> bool:
    """True if the page refers to others."""
    return HEADER.unpack_from(page)[2] == BRANCH


def children(page: bytes) -> list[tuple[bytes, int]]:
    """Return the children of a branch page, each with the lowest key that it may contain. Raises DamageError."""
    lower, upper = HEADER.unpack_from(page)[3:]
    found = [
        (page[at + NODE.size : at + NODE.size + key_bytes], low | high << 16 | more << 32)
        for at, low, high, more, key_bytes in nodes(page, lower, upper)
    ]
    if not found:
        raise DamageError("a page of it names no others")
    return [(b"", found[0][1]), *found[1:]]


def _key_of(entry: tuple[bytes, Stored]) -> bytes:
    return entry[0]


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise DamageError("its pages refer to each other in a circle")
