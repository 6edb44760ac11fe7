"""The result of a restore task."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Written:
    """The result of a task: `records` were written, `filled` offsets have no record in the table, `present` rows were
    in the topic already. `met_others_at` are log ends at which others had already written: an earlier run, or another
    client, which the driver finds out.
    """

    records: int = 0
    filled: int = 0
    present: int = 0
    met_others_at: list[int] = field(default_factory=list[int])
