"""`odradek simulate`: whole clusters under faults in virtual time; a seed repeats its run bit for bit."""

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import click

from odradek.gateway.cli.output import counted, note

if TYPE_CHECKING:
    from odradek.gateway.testing.simulation.cluster.run import Plan, Result

DEFAULT_MINUTES = 0.5
MAX_SEED = 2**63 - 1

EPILOG = """\
\b
Examples:
  odradek simulate --seed 7 --minutes 0.1 --faults kill,partition
  odradek simulate --seeds 1-2 --minutes 0.1 --faults loss
  odradek simulate --seeds 1-4 --minutes 0.1 --jobs 2

\b
Exit codes: 0 nothing found, 1 a violation (each seed is printed with the command that repeats it, and the shortest
history found of the first), 2 wrong usage, 130 interrupted (what was found until then is printed).
"""


class Seeds(click.ParamType[range]):
    """`A-B`, both included."""

    name = "A-B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Split at the dash; fails as wrong usage."""
        first, _, last = str(value).partition("-")
        if not first.isdecimal() or not last.isdecimal() or int(last) < int(first) or int(last) > MAX_SEED:
            self.fail(f"{value!r} is not a range of seeds such as 1-100", param, ctx)
        return range(int(first), int(last) + 1)


class FaultKinds(click.ParamType[tuple[str, ...]]):
    """A list such as `kill,loss`, converted to a tuple of kinds."""

    name = "kind,…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split at the commas; fails as wrong usage."""
        from odradek.gateway.testing.simulation.cluster.faults import FAULTS

        kinds = tuple(dict.fromkeys(part.strip() for part in str(value).split(",")))
        unknown = [kind for kind in kinds if kind not in FAULTS]
        if unknown:
            self.fail(f"{unknown[0]!r} is not a kind of fault; there are {', '.join(FAULTS)}", param, ctx)
        return kinds


@click.command("simulate", epilog=EPILOG)
@click.option("--seed", type=click.IntRange(0, MAX_SEED), help="Run this seed.")
@click.option("--seeds", type=Seeds(), help="Run all seeds from A to B.")
@click.option(
    "--minutes",
    type=click.FloatRange(0.05, 600),
    default=DEFAULT_MINUTES,
    show_default=True,
    help="How long load and faults last, in virtual time.",
)
@click.option("--brokers", type=click.IntRange(3, 9), default=3, show_default=True, help="How many brokers there are.")
@click.option("--voters", type=click.IntRange(1, 5), default=3, show_default=True, help="How many controllers vote.")
@click.option("--faults", type=FaultKinds(), help="These kinds of faults; else each seed chooses a mix of all.")
@click.option("--trace", is_flag=True, help="Print the newest events, too.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="How many of --seeds run side by side, each in a process of its own.",
)
def simulate(
    *,
    seed: int | None,
    seeds: range | None,
    minutes: float,
    brokers: int,
    voters: int,
    faults: tuple[str, ...] | None,
    trace: bool,
    jobs: int,
) -> None:
    """Simulate whole clusters under faults, and check all answers to clients.

    Production nodes, clients, and a network, disks and clocks with faults run in one process and in virtual time. The
    same seed and options give the same run, with the same digest of its trace, in every process.
    """
    if (seed is None) is (seeds is None):
        raise click.UsageError("give one of --seed and --seeds")
    if voters > brokers:
        raise click.UsageError("--voters is at most --brokers")
    from odradek.gateway.testing.simulation.cluster.run import Plan
    from odradek.gateway.testing.simulation.cluster.run import simulate as run

    def plan(number: int) -> "Plan":
        return Plan(number, minutes * 60, brokers, faults, voters)

    if seed is not None:
        result = run(plan(seed))
        _tell(result, trace=trace)
        failed = [result] if result.failure else []
    else:
        failed = _many([plan(number) for number in seeds or ()], jobs)
    for result in failed[:1]:
        _tell_shortest(result)
    if failed:
        sys.exit(1)


def _tell(result: "Result", *, trace: bool) -> None:
    """Print one run."""
    if trace:
        click.echo("\n".join(result.trace))
    tally = result.tally
    click.echo(f"seed       {result.plan.seed}")
    click.echo(f"digest     {result.digest} of {counted(result.events, 'event')}")
    click.echo(f"faults     {', '.join(f'{kind} {result.faults[kind]}' for kind in result.mix) or 'none'}")
    click.echo(f"load       {counted(tally['records acknowledged'], 'record')} acknowledged, {_transactions(tally)}")
    click.echo(
        f"cluster    {counted(tally['elections'], 'election')}, {counted(tally['isr changes'], 'ISR change')}, "
        f"{counted(tally['controllers'], 'active controller')}, {_reassignments(tally)}"
    )
    click.echo(f"simulated  {result.simulated_s:.1f} s")
    click.echo(f"verdict    {result.failure or 'no violation'}")


def _transactions(tally: Counter[str]) -> str:
    return (
        f"{counted(tally['transactions committed'], 'transaction')} committed, {tally['transactions aborted']} aborted"
    )


def _reassignments(tally: Counter[str]) -> str:
    return counted(tally["reassignments ended"], "reassignment")


class _Sum:
    """The totals of many runs."""

    def __init__(self) -> None:
        self.count = 0
        self.failed: list[Result] = []
        self.simulated_s = 0.0
        self.tally, self.faults = Counter[str](), Counter[str]()

    def add(self, result: "Result") -> None:
        """Add a run to the totals, and print at once the invariant that it violates, if any."""
        self.count += 1
        self.tally += result.tally
        self.faults += result.faults
        self.simulated_s += result.simulated_s
        if result.failure:
            self.failed.append(result)
            self.failed.sort(key=lambda each: each.plan.seed)
            note(f"seed {result.plan.seed}: {result.failure.splitlines()[0]}")

    def tell(self, plans: "Sequence[Plan]") -> None:
        """Print the totals. The output does not depend on the order in which the runs ended."""
        from odradek.gateway.testing.simulation.cluster.faults import FAULTS

        run = "" if self.count == len(plans) else f", {self.count} of {len(plans)} run"
        faults = ", ".join(f"{kind} {self.faults[kind]}" for kind in FAULTS if self.faults[kind])
        tally = self.tally
        click.echo(f"seeds      {plans[0].seed}-{plans[-1].seed}{run}, {len(self.failed)} with a violation")
        click.echo(f"simulated  {self.simulated_s / 3600:.2f} hours")
        click.echo(f"faults     {faults or 'none'}")
        click.echo(
            f"load       {counted(tally['records acknowledged'], 'record')} acknowledged, {_transactions(tally)}"
        )
        click.echo(
            f"cluster    {counted(tally['elections'], 'election')}, {counted(tally['isr changes'], 'ISR change')}, "
            f"{_reassignments(tally)}"
        )
        for result in self.failed:
            click.echo(f"violation  {result.plan.command()}: {result.failure.splitlines()[0]}")


def _many(plans: "Sequence[Plan]", jobs: int) -> "list[Result]":
    """Run all plans with a progress bar on a terminal, print the totals, and return the runs that failed.

    An interrupt prints the totals up to then. Raises KeyboardInterrupt.
    """
    from odradek.gateway.testing.simulation.cluster.side_by_side import results

    total = _Sum()
    try:
        with (
            closing(results(plans, jobs)) as found,
            click.progressbar(found, len(plans), label="simulating", file=sys.stderr, show_pos=True) as bar,
        ):
            for result in bar:
                total.add(result)
    finally:
        total.tell(plans)
    return total.failed


def _tell_shortest(result: "Result") -> None:
    from odradek.gateway.testing.simulation.cluster.shortest import shortest

    click.echo(f"\nseed {result.plan.seed} breaks {result.failure}")
    click.echo(f"repeat it with: {result.plan.command()}")
    found = shortest(result, lambda plan: note(f"trying {plan.command()}"))
    click.echo(f"shortest found: {found.plan.command()}\n{found.failure}")
    click.echo("\n".join(found.trace[-30:]))
