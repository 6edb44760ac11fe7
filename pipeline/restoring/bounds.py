"""`--from` and `--until`: an offset, an offset for each partition, or a time."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from odradek.gateway.cli.options import INT64_MAX, parse_moment_ms


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound of the restored offsets; at most one of the fields is set, none for no bound. `time_ms` means, as in
    Kafka, the first offset of a partition whose record is not older. Partitions without a bound are not in `offsets`.
    """

    offset: int | None = None
    time_ms: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict[int, int])

    def of(self, partition: int) -> int | None:
        """Return the offset for a partition, if it does not depend on times; None if there is no bound."""
        return self.offset if self.offset is not None else self.offsets.get(partition)


def parse_bound(text: str) -> Bound:
    """Read `1000`, `{"0": 1000, "1": 0}` or a time such as 2013-07-01T12:00:00Z. Raises ValueError."""
    if text.isdecimal():
        return Bound(offset=_offset(int(text)))
    if text.startswith("{"):
        return Bound(offsets=_offsets(json.loads(text)))
    return Bound(time_ms=parse_moment_ms(text))


def _offsets(value: Any) -> dict[int, int]:  # noqa: ANN401 - what JSON holds
    if not isinstance(value, dict) or not value:
        raise ValueError("no offsets")
    return {int(name): _offset(offset) for name, offset in cast("dict[str, Any]", value).items()}


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= INT64_MAX:
        raise ValueError(value)
    return value
