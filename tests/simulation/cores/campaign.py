"""Many runs of the cores' simulations, on several processors, until the simulated hours are done.

    python tests/simulation/cores/campaign.py --hours 10 --jobs 2
        [--from-seed N] [--seconds N] [--kinds A,B] [--runs N]

Every kind of world gets the same share of the simulated time. Progress is reported in lines on stderr. The summary has
the command that repeats each violation; the exit code is 1 if there was one. Ctrl-C ends a campaign with the summary of
what was done.
"""

import argparse
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from math import ceil, inf
from typing import Final, NamedTuple

import quorum_world
import replication_world
import voters_world
from quorum_faults import DOWNLOADING, FAILING

KINDS: Final = {
    "quorum-3": partial(quorum_world.simulate, voters=3),
    "quorum-5": partial(quorum_world.simulate, voters=5),
    "downloading-3": partial(quorum_world.simulate, voters=3, faults=DOWNLOADING),
    "downloading-5": partial(quorum_world.simulate, voters=5, faults=DOWNLOADING),
    "voters-1": partial(voters_world.changing, voters=1),
    "voters-3": partial(voters_world.changing, voters=3),
    "voters-5": partial(voters_world.changing, voters=5),
    "replication": replication_world.simulate,
    "failing-3": partial(quorum_world.simulate, voters=3, faults=FAILING),
    "failing-5": partial(quorum_world.simulate, voters=5, faults=FAILING),
    "failing-voters-3": partial(voters_world.changing, voters=3, faults=FAILING),
    "failing-replication": partial(replication_world.simulate, faults=replication_world.FAILING),
    "deleting-replication": partial(replication_world.simulate, faults=replication_world.DELETING),
}
"""Each takes `seed` and `seconds`, the duration of the faults."""
HEALING_OF_A_QUORUM_S: Final = 46
"""The approximate duration of a run after its faults."""
SHOWN: Final = {
    "elections": "elections",
    "acknowledged": "acknowledged",
    "snapshots": "snapshots",
    "downloaded": "downloads",
    "truncations": "truncations",
    "proposals answered": "ISR proposals",
    "change_NONE": "changes of voters",
    "voter_lost": "disks of voters lost",
    "stopped": "quorums stopped by a lost disk",
    "sync_failed": "failed syncs",
    "commits failed": "failed commits",
    "leading logs opened again": "leaders' logs opened again",
    "deletions": "deletions",
    "restarts inside a batch": "restarts inside a batch",
}
"""The tallies of each kind that the summary shows."""
PROGRESS_S: Final = 10.0


class Run(NamedTuple):
    """A run to be done."""

    kind: str
    seed: int
    seconds: int

    @property
    def command(self) -> str:
        options = f"--kinds {self.kind} --from-seed {self.seed} --runs 1 --seconds {self.seconds}"
        return f"python tests/simulation/cores/campaign.py {options}"

    @property
    def expected_s(self) -> int:
        """The approximate simulated duration."""
        if self.kind.endswith("replication"):
            return self.seconds + 4
        rests = ceil(self.seconds / quorum_world.BOUT_S) - 1
        return self.seconds + rests * (quorum_world.LAST_FAULT_S + quorum_world.REST_S) + HEALING_OF_A_QUORUM_S


class Outcome(NamedTuple):
    """The outcome of a run: `failure` is the violation, or the traceback of an error."""

    run: Run
    failure: str | None
    tally: Mapping[str, int] = {}
    simulated_us: int = 0
    events: int = 0
    cpu_s: float = 0.0


def carry_out(run: Run) -> Outcome:
    began_s = time.process_time()
    try:
        result = KINDS[run.kind](seed=run.seed, seconds=run.seconds)
    except Exception:  # noqa: BLE001 - an error of the cores is found as a violation is
        return Outcome(run, traceback.format_exc(), cpu_s=time.process_time() - began_s)
    failure = None if result.violation is None else str(result.violation)
    cpu_s = time.process_time() - began_s
    return Outcome(run, failure, dict(result.tally), result.simulated_us, result.events, cpu_s)


def planned(kinds: Sequence[str], first_seed: int, seconds: int, hours: float, runs: float) -> Iterator[Run]:
    """The runs in order: each is of the kind that has been simulated least, with that kind's next seed."""
    simulated_s, seeds = dict.fromkeys(kinds, 0), dict.fromkeys(kinds, first_seed)
    while sum(simulated_s.values()) < hours * 3600:
        kind = min(kinds, key=simulated_s.__getitem__)
        if seeds[kind] - first_seed >= runs:
            return
        run = Run(kind, seeds[kind], seconds)
        yield run
        seeds[kind] += 1
        simulated_s[kind] += run.expected_s


class Stop:
    """Set by the first Ctrl-C, after which current runs are completed. The second one interrupts these as well."""

    def __init__(self) -> None:
        self.is_set = False

    def __enter__(self) -> "Stop":
        self._before = {each: signal.signal(each, self._set) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _set(self, number: int, _frame: object) -> None:
        self.is_set = True
        signal.signal(number, self._before[signal.Signals(number)])

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def outcomes(runs: Iterable[Run], jobs: int) -> Iterator[Outcome]:
    """Carries out all runs on `jobs` processors."""
    if jobs == 1:
        yield from map(carry_out, runs)
        return
    left, pending = iter(runs), set[Future[Outcome]]()
    with ProcessPoolExecutor(jobs, initializer=_ignore_interrupts) as pool:
        while True:
            pending |= {pool.submit(carry_out, run) for run in islice(left, jobs + 1 - len(pending))}
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in done)


def _ignore_interrupts() -> None:
    """A terminal sends Ctrl-C to all its processes; only the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@dataclass
class Sum:
    """All runs of one kind."""

    seeds: list[int] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    simulated_us: int = 0
    events: int = 0
    cpu_s: float = 0.0
    failures: int = 0

    def add(self, outcome: Outcome) -> None:
        self.seeds.append(outcome.run.seed)
        self.tally.update(outcome.tally)
        self.simulated_us += outcome.simulated_us
        self.events += outcome.events
        self.cpu_s += outcome.cpu_s
        self.failures += outcome.failure is not None

    @property
    def pace(self) -> str:
        """Simulated seconds per second of a processor."""
        seconds = self.simulated_us / 1e6 / max(self.cpu_s, 1e-9)
        return f"{self.cpu_s:.0f} CPU seconds ({seconds:.0f} simulated seconds in each), {self.events:,} events"

    @property
    def hours(self) -> float:
        return self.simulated_us / 3.6e9


class Report:
    """The runs done so far, by kind."""

    def __init__(self) -> None:
        self.sums: dict[str, Sum] = {}
        self.failed: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.sums.setdefault(outcome.run.kind, Sum()).add(outcome)
        if outcome.failure is not None:
            self.failed.append(outcome)

    @property
    def hours(self) -> float:
        return sum(each.hours for each in self.sums.values())

    @property
    def runs(self) -> int:
        return sum(len(each.seeds) for each in self.sums.values())

    def progress(self) -> str:
        return f"{self.hours:.2f} simulated hours in {self.runs} runs, {len(self.failed)} violations"

    def summary(self) -> Iterator[str]:
        for kind, each in sorted(self.sums.items()):
            runs = f"{len(each.seeds)} runs, seeds {min(each.seeds)} to {max(each.seeds)}"
            yield f"{kind}: {runs}, {each.hours:.2f} simulated hours, {each.pace}, {each.failures} violations"
            yield "    " + ", ".join(f"{each.tally[key]:,} {name}" for key, name in SHOWN.items() if each.tally[key])
        yield f"{self.progress()}, {sum(each.cpu_s for each in self.sums.values()):.0f} CPU seconds"
        for outcome in self.failed:
            yield f"VIOLATION {outcome.run.kind}, seed {outcome.run.seed}: {outcome.failure}"
            yield f"    to see it again: {outcome.run.command}"


def run_campaign(runs: Iterable[Run], jobs: int) -> Report:
    """Carries out the runs and reports progress."""
    report, said_s = Report(), -inf
    with Stop() as stop:
        for outcome in outcomes(takewhile(lambda _: not stop.is_set, runs), jobs):
            report.add(outcome)
            if outcome.failure is not None:
                print(f"VIOLATION {outcome.run.command}: {outcome.failure}", file=sys.stderr, flush=True)
            if outcome.failure is not None or time.monotonic() - said_s >= PROGRESS_S:
                said_s = time.monotonic()
                print(report.progress(), file=sys.stderr, flush=True)
    return report


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run many simulations of the cores.")
    parser.add_argument("--hours", type=float, help="simulated hours of all kinds together; 1 unless --runs says more")
    parser.add_argument("--runs", type=int, help="at most so many runs of each kind")
    parser.add_argument("--seconds", type=int, default=60, help="how long a run has faults, in simulated time")
    parser.add_argument("--from-seed", type=int, default=0, help="the first seed of each kind")
    parser.add_argument("--jobs", type=int, default=1, help="how many processors are used")
    parser.add_argument("--kinds", default=",".join(KINDS), help="some of the kinds: %(default)s")
    given = parser.parse_args(arguments)
    given.kinds = given.kinds.split(",")
    if unknown := set(given.kinds) - set(KINDS):
        parser.error(f"no such kinds: {', '.join(sorted(unknown))}")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    runs = inf if given.runs is None else given.runs
    hours = given.hours if given.hours is not None else 1.0 if given.runs is None else inf
    report = run_campaign(planned(given.kinds, given.from_seed, given.seconds, hours, runs), given.jobs)
    print("\n".join(report.summary()))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
