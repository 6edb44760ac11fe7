"""Checks a segment's file before LMDB opens it: a truncated or damaged file makes LMDB kill the process.

LMDB maps the file and follows page numbers in it. A page beyond the file's end causes a SIGBUS, a page of the wrong
kind an assertion failure, and either ends the process. So before a file is opened its pages are read from the file and
checked for what LMDB relies on: both meta pages; the file's size; and of every tree the branch and leaf pages, whose
page numbers, kinds and node offsets must be in range. Values on overflow pages are not read; their batches have
checksums. At most `MAX_PAGES` pages of the trees are read, so that opening a large segment of small values does not
read all of it.
"""

import os
import stat
from pathlib import Path
from typing import Final

from odradek.storage_backends.interface import StoreCorruptError
from odradek.storage_backends.lmdb_segments.advice import what_to_do
from odradek.storage_backends.lmdb_segments.pages import (
    BIG,
    BRANCH,
    HEADER,
    LEAF,
    MAX_DEPTH,
    NO_PAGE,
    NODE,
    PAGE_NUMBER,
    SUBTREE,
    TREE,
    DamageError,
    newest_meta,
    nodes,
    not_a_page,
)
from odradek.storage_backends.system import open_to_read, read_at

MAX_PAGES: Final = 512
"""The maximal number of branch and leaf pages checked, 40 µs each. A file shorter than its last page is checked
completely.
"""


def check_file(path: Path) -> None:
    """Check that LMDB can read the segment at `path`. Raises StoreCorruptError with a description of the damage, and
    OSError.
    """
    fd = open_to_read(path)
    try:
        _Inspection(fd).run()
    except DamageError as damage:
        raise StoreCorruptError(f"{path} is damaged: {damage}; {what_to_do(path)}") from None
    finally:
        os.close(fd)


class _Inspection:
    """The check of one file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise DamageError("it is not a regular file")
        self._size_bytes = found.st_size
        self._meta = newest_meta(fd)
        self._needed_bytes = (self._meta.last_page + 1) * self._meta.page_bytes
        self._seen = 0

    def run(self) -> None:
        """Check the trees: free pages, the main database, and the named databases in it."""
        for root in self._meta.roots:
            self._walk(root)

    def _walk(self, root: int) -> None:
        if root == NO_PAGE:
            return
        pages = [(root, 1)]
        while pages and not self._is_enough():
            number, depth = pages.pop()
            if depth > MAX_DEPTH or self._seen > self._meta.last_page:
                raise DamageError("its pages refer to each other in a circle")
            page = self._page(number)
            children = self._children(page, number)
            pages += [(child, depth + 1) for child in reversed(children)]

    def _is_enough(self) -> bool:
        return self._seen >= MAX_PAGES and self._size_bytes >= self._needed_bytes

    def _page(self, number: int) -> bytes:
        self._check_extent(number, 1)
        self._seen += 1
        size = self._meta.page_bytes
        page = read_at(self._fd, size, number * size)
        if len(page) < size:
            raise DamageError("it was cut short while it was looked at")
        return page

    def _check_extent(self, number: int, count: int) -> None:
        end = number + count
        if number < 2 or end > self._meta.last_page + 1:
            raise DamageError(f"it refers to page {number}, and its pages are 2 to {self._meta.last_page}")
        if end * self._meta.page_bytes > self._size_bytes:
            raise DamageError(
                f"it was cut short: it has {self._size_bytes} bytes, and its last transaction needs "
                f"{self._needed_bytes}"
            )

    def _children(self, page: bytes, number: int) -> list[int]:
        """Check a page and its nodes; return the tree pages that it refers to."""
        own_number, _, flags, lower, upper = HEADER.unpack_from(page)
        kind = flags & (BRANCH | LEAF)
        fits = HEADER.size <= lower <= upper <= len(page) and not lower & 1
        if own_number != number or flags not in (BRANCH, LEAF) or not fits:
            raise not_a_page(number, page)
        if kind == BRANCH:
            children = [low | high << 16 | more << 32 for _, low, high, more, _ in nodes(page, lower, upper)]
            if not children:
                raise not_a_page(number, page)
            return children
        return self._subtrees(page, lower, upper)

    def _subtrees(self, page: bytes, lower: int, upper: int) -> list[int]:
        roots: list[int] = []
        for at, low, high, flags, key_bytes in nodes(page, lower, upper):
            value, size_bytes = at + NODE.size + key_bytes, low | high << 16
            inline_bytes = PAGE_NUMBER.size if flags & BIG else size_bytes
            if value + inline_bytes > len(page) or (flags & SUBTREE and size_bytes != TREE.size):
                raise DamageError("a row of it reaches beyond its page")
            if flags & BIG:
                count = -(-(size_bytes + HEADER.size) // len(page))
                self._check_extent(PAGE_NUMBER.unpack_from(page, value)[0], count)
            elif flags & SUBTREE:
                root = TREE.unpack_from(page, value)[-1]
                roots += [root] if root != NO_PAGE else []
        return roots
