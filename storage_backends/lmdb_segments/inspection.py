"""Looking at a segment's file before LMDB does: LMDB ends the process over a file that is cut short or garbled.

LMDB maps the file and follows page numbers in it. A page beyond the file's end is a SIGBUS, a page that is not what its
place in the tree says is an assertion, and either ends the process. So before a file is opened its pages are read with
`pread` and compared with what LMDB would need: both meta pages; the file's size; and of every tree the branch and leaf
pages, whose page numbers, kinds and node offsets must be in range. Values on pages of their own are not read; their
batches have checksums.

The trees are read as far as `MAX_PAGES`, so that opening a large segment of small values does not read all of it.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from odradek.storage_backends.interface import StoreCorruptError
from odradek.storage_backends.lmdb_segments.advice import what_to_do

MAX_PAGES: Final = 512
"""How many branch and leaf pages are looked at, 40 µs each. A file shorter than its last page is looked at whole."""

_HEADER = Struct("=QHHHH")  # page number, padding, flags, end of the node offsets, start of the nodes
_META = Struct("=IIQQ")  # magic, version, address, map size; two tree records follow, then:
_META_END = Struct("=QQ")  # last page, transaction id
_TREE = Struct("=IHHQQQQQ")  # page size or padding, flags, depth, branch, leaf and overflow pages, entries, root
_NODE = Struct("=HHHH")  # low and high half of the size (or of a page number), flags, key size
_PAGE_NUMBER = Struct("=Q")

_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
_BRANCH, _LEAF, _META_PAGE = 1, 2, 8
_BIG, _SUBTREE = 1, 2
_NO_PAGE: Final = 2**64 - 1
_MAX_DEPTH: Final = 32


class _Meta(NamedTuple):
    page_bytes: int
    roots: tuple[int, int]
    last_page: int
    txn_id: int


class _DamageError(Exception):
    """What is wrong with the file."""


def check_file(path: Path) -> None:
    """Check that LMDB can read the segment at `path`. Raises StoreCorruptError with what is wrong, and OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # without the last, a named pipe would block
    try:
        _Inspection(fd).run()
    except _DamageError as damage:
        raise StoreCorruptError(f"{path} is damaged: {damage}; {what_to_do(path)}") from None
    finally:
        os.close(fd)


class _Inspection:
    """One look at a file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise _DamageError("it is not a regular file")
        self._size_bytes = found.st_size
        self._meta = self._read_meta()
        self._needed_bytes = (self._meta.last_page + 1) * self._meta.page_bytes
        self._seen = 0

    def run(self) -> None:
        """Walk the trees: free pages, rows, and those that rows name."""
        for root in self._meta.roots:
            self._walk(root)

    def _read_meta(self) -> _Meta:
        """Read the newer of both meta pages; LMDB wants both to be whole."""
        first = self._meta_at(0)
        second = self._meta_at(first.page_bytes)
        return max(first, second, key=lambda meta: meta.txn_id)

    def _meta_at(self, offset: int) -> _Meta:
        length = _HEADER.size + _META.size + 2 * _TREE.size + _META_END.size
        data = os.pread(self._fd, length, offset)
        if len(data) < length:
            raise _DamageError(f"it has {self._size_bytes} bytes, and its two meta pages alone take more")
        flags = _HEADER.unpack_from(data)[2]
        magic, version, _, _ = _META.unpack_from(data, _HEADER.size)
        if not flags & _META_PAGE or (magic, version & 0xFFFF) != (_MAGIC, _VERSION):
            raise _DamageError(f"the meta page at byte {offset} is not one of LMDB")
        trees = _HEADER.size + _META.size
        page_bytes, *_, free_root = _TREE.unpack_from(data, trees)
        main_root = _TREE.unpack_from(data, trees + _TREE.size)[-1]
        if page_bytes not in (1 << bits for bits in range(9, 17)):
            raise _DamageError(f"the meta page at byte {offset} gives a page size of {page_bytes}")
        return _Meta(page_bytes, (free_root, main_root), *_META_END.unpack_from(data, length - _META_END.size))

    def _walk(self, root: int) -> None:
        if root == _NO_PAGE:
            return
        pages = [(root, 1)]
        while pages and not self._is_enough():
            number, depth = pages.pop()
            if depth > _MAX_DEPTH or self._seen > self._meta.last_page:
                raise _DamageError("its pages refer to each other in a circle")
            page = self._page(number)
            children = self._children(page, number)
            pages += [(child, depth + 1) for child in reversed(children)]

    def _is_enough(self) -> bool:
        return self._seen >= MAX_PAGES and self._size_bytes >= self._needed_bytes

    def _page(self, number: int) -> bytes:
        self._check_extent(number, 1)
        self._seen += 1
        size = self._meta.page_bytes
        page = os.pread(self._fd, size, number * size)
        if len(page) < size:
            raise _DamageError("it was cut short while it was looked at")
        return page

    def _check_extent(self, number: int, count: int) -> None:
        end = number + count
        if number < 2 or end > self._meta.last_page + 1:
            raise _DamageError(f"it refers to page {number}, and its pages are 2 to {self._meta.last_page}")
        if end * self._meta.page_bytes > self._size_bytes:
            raise _DamageError(
                f"it was cut short: it has {self._size_bytes} bytes, and its last transaction needs "
                f"{self._needed_bytes}"
            )

    def _children(self, page: bytes, number: int) -> list[int]:
        """Check a page and what its nodes say; return the pages below it that are parts of trees."""
        own_number, _, flags, lower, upper = _HEADER.unpack_from(page)
        kind = flags & (_BRANCH | _LEAF)
        fits = _HEADER.size <= lower <= upper <= len(page) and not lower & 1
        if own_number != number or flags not in (_BRANCH, _LEAF) or not fits:
            raise _DamageError(f"page {number} of {len(page)} bytes is not what LMDB wrote there")
        if kind == _BRANCH:
            children = [low | high << 16 | more << 32 for _, low, high, more, _ in _nodes(page, lower, upper)]
            if not children:
                raise _DamageError(f"page {number} of {len(page)} bytes is not what LMDB wrote there")
            return children
        return self._subtrees(page, lower, upper)

    def _subtrees(self, page: bytes, lower: int, upper: int) -> list[int]:
        roots: list[int] = []
        for at, low, high, flags, key_bytes in _nodes(page, lower, upper):
            value, size_bytes = at + _NODE.size + key_bytes, low | high << 16
            inline_bytes = _PAGE_NUMBER.size if flags & _BIG else size_bytes
            if value + inline_bytes > len(page) or (flags & _SUBTREE and size_bytes != _TREE.size):
                raise _DamageError("a row of it reaches beyond its page")
            if flags & _BIG:
                count = -(-(size_bytes + _HEADER.size) // len(page))
                self._check_extent(_PAGE_NUMBER.unpack_from(page, value)[0], count)
            elif flags & _SUBTREE:
                root = _TREE.unpack_from(page, value)[-1]
                roots += [root] if root != _NO_PAGE else []
        return roots


def _nodes(page: bytes, lower: int, upper: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Walk a page's nodes: where they begin, and their four fields."""
    for at in memoryview(page)[_HEADER.size : lower].cast("H"):
        fields = _NODE.unpack_from(page, at) if upper <= at <= len(page) - _NODE.size else None
        if fields is None or at + _NODE.size + fields[3] > len(page):
            raise _DamageError("a row of it lies outside its page")
        yield at, *fields
