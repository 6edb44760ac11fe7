"""The plot of the demo: throughput and latency before, during and after the fault."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

STEP_S = 0.25


def write_chart(
    path: Path,
    acknowledged: Sequence[tuple[float, float]],
    read: Sequence[float],
    events: Sequence[tuple[float, str]],
    began: float,
) -> None:
    """Write a PNG. `acknowledged` are times and latencies in seconds, `events` times and descriptions."""
    figure = Figure(figsize=(10, 6))
    rates, latencies = figure.subplots(2, 1, sharex=True)
    rates.plot(*_rate([time for time, _ in acknowledged], began), label="acknowledged", color="#2b6cb0")
    rates.plot(*_rate(read, began), label="read", color="#2f855a", linestyle="--")
    rates.set_ylabel("records a second")
    rates.legend(loc="lower right")
    latencies.scatter(
        [time - began for time, _ in acknowledged], [1000 * took for _, took in acknowledged], s=3, color="#2b6cb0"
    )
    latencies.set_yscale("log")
    latencies.set_ylabel("ms to the acknowledgement")
    latencies.set_xlabel("seconds")
    for time, what in events:
        for axes in (rates, latencies):
            axes.axvline(time - began, color="#c53030", linewidth=0.8)
        rates.annotate(
            what, (time - began, 1), xycoords=("data", "axes fraction"), rotation=20, fontsize=8, color="#c53030"
        )
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(str(path), dpi=110)  # pyright: ignore[reportUnknownMemberType]


def _rate(times: Sequence[float], began: float) -> tuple[list[float], list[float]]:
    steps = [int((time - began) / STEP_S) for time in times]
    last = max(steps, default=0)
    counts = [0] * (last + 1)
    for step in steps:
        counts[max(step, 0)] += 1
    return [index * STEP_S for index in range(last + 1)], [count / STEP_S for count in counts]
