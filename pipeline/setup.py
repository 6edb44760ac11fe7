"""Downloads the jars that jobs need, for `odradek pipeline setup` and at the start of a Spark session."""

from collections.abc import Iterable
from pathlib import Path

from odradek.gateway.cli.output import meter
from odradek.pipeline import jars


def prepare(wanted: Iterable[jars.Jar], *, shown: bool = True) -> list[Path]:
    """Return the files of all jars, after downloading missing ones, with a progress bar on a terminal unless `shown` is
    False. Raises MissingError if one cannot be downloaded.
    """
    needed = list(wanted)
    missing = jars.missing(needed)
    if missing:
        total = sum(jar.size_bytes for jar in missing)
        with meter("fetching Spark's connectors", total, of_bytes=True, shown=shown) as bar:
            for jar in missing:
                jars.fetch(jar, lambda size: bar.advance(0, size))
    return [jars.folder() / jar.name for jar in needed]
