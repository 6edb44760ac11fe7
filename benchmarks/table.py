"""The table of results: one row for each figure and mode, plain or in colours. All functions but `show` are pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.cases import AS_SHIPPED, CPU, KAFKA, ODRADEK, Figure, Mode
from benchmarks.runner import CaseResult
from benchmarks.stats import Spread, paired_ratios, rounded, verdict

HEADINGS = ("work", "mode", "figure", ODRADEK, KAFKA, "ratio", "min..max", "", "CPU ratio")
LEGEND = (
    "ratio: Odradek / Kafka, the median of the rounds' own ratios; better and worse are Odradek's (within 5%: same).",
    "CPU ratio: the brokers' CPU seconds per unit of work (their processes alone), with min..max; below 1 is better.",
    f"{AS_SHIPPED}: Odradek acknowledges after fsync, Kafka out of the page cache; each with its default.",
)
_NONE = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. `ratio` and `cpu_ratio` are None if a side has no figure; `notes` contain the reasons."""

    work: str
    mode: str
    unit: str
    higher_is_better: bool
    ours: Spread | None
    theirs: Spread | None
    ratio: Spread | None
    cpu_ratio: Spread | None
    notes: tuple[str, ...] = ()

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of HEADINGS."""
        ratio = self.ratio
        return (
            self.work,
            self.mode,
            self.unit,
            _median(self.ours),
            _median(self.theirs),
            _median(ratio),
            _range(ratio),
            "" if ratio is None else verdict(ratio.median, higher_is_better=self.higher_is_better),
            _NONE if self.cpu_ratio is None else f"{_median(self.cpu_ratio)} ({_range(self.cpu_ratio)})",
        )


def _median(spread: Spread | None) -> str:
    return _NONE if spread is None else rounded(spread.median)


def _range(spread: Spread | None) -> str:
    if spread is None or spread.count == 1:
        return _NONE
    return f"{rounded(spread.low)}..{rounded(spread.high)}"


def rows_of(result: CaseResult) -> list[Row]:
    """The rows of one case: its figures in every measured mode, then the one with each side in its default mode."""
    modes = dict.fromkeys(mode for mode, _ in [*result.samples, *result.failures])
    rows = [
        _row(result, figure, mode.value, mode, mode, with_cpu=place == 0)
        for mode in modes
        for place, figure in enumerate(result.case.figures)
    ]
    if result.case.as_shipped and {Mode.PAGE_CACHE, Mode.FSYNC} <= set(modes):
        figure = result.case.figures[0]
        rows.append(_row(result, figure, AS_SHIPPED, Mode.FSYNC, Mode.PAGE_CACHE, with_cpu=True))
    return rows


def _row(result: CaseResult, figure: Figure, name: str, ours_in: Mode, theirs_in: Mode, *, with_cpu: bool) -> Row:
    ours = result.values(ours_in, ODRADEK, figure.key)
    theirs = result.values(theirs_in, KAFKA, figure.key)
    cpu = paired_ratios(result.values(ours_in, ODRADEK, CPU), result.values(theirs_in, KAFKA, CPU))
    return Row(
        result.case.title,
        name,
        figure.unit,
        figure.higher_is_better,
        Spread.of(ours),
        Spread.of(theirs),
        Spread.of(paired_ratios(ours, theirs)),
        Spread.of(cpu) if with_cpu else None,
        _notes(result, ours_in, theirs_in),
    )


def _notes(result: CaseResult, ours_in: Mode, theirs_in: Mode) -> tuple[str, ...]:
    notes = [
        f"{side}: not measured: {result.failures[mode, side]}"
        for mode, side in ((ours_in, ODRADEK), (theirs_in, KAFKA))
        if (mode, side) in result.failures
    ]
    return (*notes, result.case.absent) if result.case.absent else tuple(notes)


def plain(rows: Sequence[Row], peer: str = KAFKA) -> str:
    """The table as aligned text, with legend and footnotes; `peer` is the name of the other side."""
    lines = [headings(peer), *_thinned(rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    text = ["  ".join(_aligned(cell, widths[at], at) for at, cell in enumerate(line)).rstrip() for line in lines]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*text, "", *legend(peer), *footnotes(rows)])


def headings(peer: str) -> tuple[str, ...]:
    """The column headings."""
    return tuple(peer if heading == KAFKA else heading for heading in HEADINGS)


def legend(peer: str) -> list[str]:
    """The explanation of the columns."""
    return [line.replace(KAFKA, peer) for line in LEGEND]


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column in {0, 1, 2, 7} else cell.rjust(width)


def _thinned(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The cells of the rows; work and mode are empty if they are the same as in the row above."""
    thinned: list[tuple[str, ...]] = []
    previous: tuple[str, ...] = ("", "")
    for row in rows:
        cells = row.cells()
        same_work = cells[0] == previous[0]
        same_mode = same_work and cells[1] == previous[1]
        thinned.append(("" if same_work else cells[0], "" if same_mode else cells[1], *cells[2:]))
        previous = cells
    return thinned


def footnotes(rows: Iterable[Row]) -> list[str]:
    """The reasons for missing figures, without repetitions."""
    return list(dict.fromkeys(f"{row.work} {row.mode}".strip() + f": {note}" for row in rows for note in row.notes))


def as_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """The rows as JSON objects."""
    return [asdict(row) for row in rows]


def show(rows: Sequence[Row], peer: str = KAFKA) -> None:
    """Print the table: with rich on a terminal, else as plain text."""
    import sys

    if not sys.stdout.isatty():
        print(plain(rows, peer))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for at, heading in enumerate(headings(peer)):
        table.add_column(heading, justify="left" if at in {0, 1, 2, 7} else "right", no_wrap=at > 0)
    colours = {"better": "green", "worse": "red"}
    for cells in _thinned(rows):
        colour = colours.get(cells[7], "")
        marked = [f"[{colour}]{cell}[/]" if colour and at in {5, 7} else cell for at, cell in enumerate(cells)]
        table.add_row(*marked)
    console = Console()
    console.print(table)
    for line in ["", *legend(peer), *footnotes(rows)]:
        console.print(line, markup=False, highlight=False)
