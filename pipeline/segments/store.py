"""The only module that imports the reader of LMDB segments' files."""

from odradek.storage_backends.lmdb_segments.beside import LmdbLogs, LogGoneError, LogView, SegmentGoneError
from odradek.storage_backends.lmdb_segments.layout import partition_path

__all__ = ["LmdbLogs", "LogGoneError", "LogView", "SegmentGoneError", "partition_path"]
