"""Delays by carrier, in whole minutes, so that sums are exact in every order; and the state that contains them."""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Totals:
    """Carrier to [flights, flights that arrived, sum of arrival delays in minutes]."""

    carriers: dict[str, list[int]] = field(default_factory=dict)

    def add(self, carrier: str, arrival_delay: int | None) -> None:
        """Count one flight; a delay of None is a flight that did not arrive at its destination."""
        counts = self.carriers.setdefault(carrier, [0, 0, 0])
        counts[0] += 1
        if arrival_delay is not None:
            counts[1] += 1
            counts[2] += arrival_delay

    def merge(self, other: "Totals") -> None:
        """Add the counts of `other`."""
        for carrier, counts in other.carriers.items():
            mine = self.carriers.setdefault(carrier, [0, 0, 0])
            for column, count in enumerate(counts):
                mine[column] += count

    @property
    def flights(self) -> int:
        """All flights counted."""
        return sum(counts[0] for counts in self.carriers.values())


@dataclass(slots=True)
class PartitionState:
    """Totals of one input partition and the offset up to which they count, in one record, so that they always match.

    A member that reads such a record can continue from it, which makes the group's result exact although a member may
    be killed at any instruction.
    """

    next_offset: int = 0
    totals: Totals = field(default_factory=Totals)
    by: str = ""

    def encode(self) -> bytes:
        """The record's value."""
        document = {"next_offset": self.next_offset, "by": self.by, "carriers": self.totals.carriers}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> "PartitionState":
        """Decode the value that `encode` returns."""
        document: dict[str, Any] = json.loads(value)
        return cls(document["next_offset"], Totals(document["carriers"]), document["by"])
