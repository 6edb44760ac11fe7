"""The result of a restore task."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Written:
    """What one task has done to its partition.

    `records` are written, `filled` offsets are without a record in the table, `present` rows were in the topic already.
    `met_others_at` are ends of the log where something else had written what was to be written: an earlier run, or
    another client, which the driver finds out.
    """

    records: int = 0
    filled: int = 0
    present: int = 0
    met_others_at: list[int] = field(default_factory=list[int])
