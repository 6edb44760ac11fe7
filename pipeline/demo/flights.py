"""The flights of the demo, and totals of them."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import zstandard

DATA: Final = Path(__file__).parent / "flights.csv.zst"
"""Departures from New York from 1 to 21 January 2013 (scripts/pack_demo_flights.py; the data are CC0)."""
COLUMNS: Final = ("carrier", "flight", "tailnum", "origin", "dest", "time_hour", "dep_delay", "arr_delay")
_MISSING: Final = "NA"

Counts = tuple[int, int, int]
"""Flights, flights that arrived, and the sum of their delays at arrival in minutes."""


class Flight(NamedTuple):
    """One flight as a record. The key is the aeroplane's tail number, None for a flight that was cancelled early."""

    key: bytes | None
    value: bytes
    time_ms: int


class Totals:
    """Counts by carrier. All are whole numbers, so the order in which flights are added does not matter."""

    def __init__(self, counts: Mapping[str, Iterable[int]] | None = None) -> None:
        self.counts: dict[str, Counts] = {}
        for carrier, (flights, arrived, delay) in (counts or {}).items():
            self.counts[carrier] = (flights, arrived, delay)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Totals) and other.counts == self.counts

    def add(self, value: bytes) -> None:
        """Count the flight of a record."""
        flight = json.loads(value)
        delay: int | None = flight["arr_delay"]
        self._plus(flight["carrier"], (1, 0 if delay is None else 1, delay or 0))

    def merge(self, other: "Totals") -> None:
        """Add the counts of `other`."""
        for carrier, counts in other.counts.items():
            self._plus(carrier, counts)

    @property
    def flights(self) -> int:
        """The number of all flights."""
        return sum(flights for flights, _, _ in self.counts.values())

    def _plus(self, carrier: str, more: Counts) -> None:
        flights, arrived, delay = self.counts.get(carrier, (0, 0, 0))
        self.counts[carrier] = (flights + more[0], arrived + more[1], delay + more[2])


def flights() -> Iterator[Flight]:
    """All flights, in the order of the file."""
    text = zstandard.ZstdDecompressor().decompress(DATA.read_bytes()).decode()
    for row in csv.reader(io.StringIO(text)):
        yield _flight(dict(zip(COLUMNS, row, strict=True)))


def totals_of(rows: Iterable[Flight]) -> Totals:
    """The totals with which all others are compared."""
    totals = Totals()
    for flight in rows:
        totals.add(flight.value)
    return totals


def _flight(row: Mapping[str, str]) -> Flight:
    value = {
        "carrier": row["carrier"],
        "flight": int(row["flight"]),
        "origin": row["origin"],
        "dest": row["dest"],
        "time": row["time_hour"],
        "dep_delay": _number(row["dep_delay"]),
        "arr_delay": _number(row["arr_delay"]),
    }
    tail = row["tailnum"]
    time_ms = int(datetime.fromisoformat(row["time_hour"]).timestamp() * 1000)
    return Flight(
        None if tail == _MISSING else tail.encode(), json.dumps(value, separators=(",", ":")).encode(), time_ms
    )


def _number(text: str) -> int | None:
    return None if text == _MISSING else int(float(text))
