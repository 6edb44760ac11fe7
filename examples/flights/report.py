"""The results of the demo: a table on the terminal, and a chart as one HTML file without external references."""

import html
from pathlib import Path

from rich.table import Table

from examples.flights.totals import Totals

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 52rem; color: #222; }
td { padding: .15rem .6rem; white-space: nowrap; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
td.bar { width: 60%; } .axis { position: relative; height: 1.1rem; background: #f4f4f4; }
.axis div { position: absolute; top: 0; bottom: 0; } .late { background: #d9822b; } .early { background: #2b8a5b; }
footer { color: #666; margin-top: 2rem; font-size: .85rem; }
"""


def mean_delays(totals: Totals) -> list[tuple[str, int, float]]:
    """Carrier, flights and mean arrival delay in minutes, the most punctual first."""
    rows = [
        (carrier, flights, delay / arrived if arrived else 0.0)
        for carrier, (flights, arrived, delay) in totals.carriers.items()
    ]
    return sorted(rows, key=lambda row: row[2])


def comparison(names: dict[str, str], results: dict[str, Totals]) -> Table:
    """A table with a line for each carrier and a column of flights for each source; differences are red."""
    truth = results["file"]
    table = Table(title="Flights and mean arrival delay by carrier", title_justify="left")
    table.add_column("carrier")
    for source in results:
        table.add_column(source, justify="right")
    table.add_column("delay", justify="right")
    for carrier, _, mean in mean_delays(truth):
        cells = [_cell(totals, truth, carrier) for totals in results.values()]
        table.add_row(f"{carrier} {names.get(carrier, '')}", *cells, f"{mean:+.1f} min")
    sums = [f"[bold]{totals.flights:,}" for totals in results.values()]
    table.add_row("[bold]all", *sums, "", end_section=True)
    return table


def _cell(totals: Totals, truth: Totals, carrier: str) -> str:
    counts = totals.carriers.get(carrier, [0, 0, 0])
    colour = "green" if counts == truth.carriers[carrier] else "bold red"
    return f"[{colour}]{counts[0]:,}"


def write_chart(path: Path, names: dict[str, str], totals: Totals, story: list[str]) -> None:
    """Write the mean delays as bars around zero, with the events of the run below."""
    rows = mean_delays(totals)
    low, high = min(0.0, *(row[2] for row in rows)), max(0.0, *(row[2] for row in rows))
    width = (high - low) or 1.0
    body = "\n".join(_bar(names.get(carrier, carrier), count, mean, low, width) for carrier, count, mean in rows)
    events = "".join(f"<li>{html.escape(line)}</li>" for line in story)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Arrival delays</title><style>{STYLE}</style>"
        f"<h1>Mean arrival delay by airline</h1><p>{totals.flights:,} flights from New York, 2013; minutes, early is "
        f"green.</p><table>{body}</table><footer><ul>{events}</ul></footer></html>\n",
        encoding="utf-8",
    )


def _bar(name: str, count: int, mean: float, low: float, width: float) -> str:
    left = (min(mean, 0.0) - low) / width * 100
    kind = "late" if mean > 0 else "early"
    return (
        f"<tr><td>{html.escape(name)}<td class=number>{count:,}<td class=bar><div class=axis>"
        f'<div class={kind} style="left:{left:.2f}%;width:{abs(mean) / width * 100:.2f}%"></div></div>'
        f"<td class=number>{mean:+.1f}"
    )
