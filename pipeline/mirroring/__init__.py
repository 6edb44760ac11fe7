"""A copy from one Kafka to another: `mirror` is the job; `verbatim.py` and `renumbered.py` are its two ways."""

from odradek.pipeline.mirroring.job import mirror

__all__ = ["mirror"]
