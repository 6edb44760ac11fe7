"""The one door to the files of LMDB segments."""

from odradek.storage_backends.lmdb_segments.beside import LogGoneError, LogView, SegmentGoneError, logs_in
from odradek.storage_backends.lmdb_segments.layout import partition_dir_name

__all__ = ["LogGoneError", "LogView", "SegmentGoneError", "logs_in", "partition_dir_name"]
