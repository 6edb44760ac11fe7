"""The result of a restore task."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Written:
    """The result of a task: `records` were written, `filled` offsets have no record in the table, `present` rows were
    in the topic already. `met_others_at` has the log end offset of each import that was refused because the log already
    reached beyond its first offset: after an earlier attempt or run, or by another client. Then the driver compares the
    last record.
    """

    records: int = 0
    filled: int = 0
    present: int = 0
    met_others_at: list[int] = field(default_factory=list[int])
