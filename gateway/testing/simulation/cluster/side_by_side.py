"""Runs of many seeds, several at a time, each in a process of its own: a run needs one processor."""

import multiprocessing
import signal
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice

from odradek.gateway.testing.simulation.cluster.run import Plan, Result, simulate


def results(plans: Iterable[Plan], jobs: int) -> Generator[Result]:
    """Run all, `jobs` at a time; with several the results come in the order in which the runs end.

    When it is closed, or interrupted, what is under way is given up.
    """
    if jobs == 1:
        yield from map(simulate, plans)
        return
    left, pending = iter(plans), set[Future[Result]]()
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_ignore_interrupts)
    try:
        while True:
            pending |= {pool.submit(simulate, plan) for plan in islice(left, 2 * jobs - len(pending))}
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            yield from [each.result() for each in done]
    finally:
        if pending:
            _give_up(pool)
        pool.shutdown()


def _give_up(pool: ProcessPoolExecutor) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    for process in multiprocessing.active_children():
        process.terminate()


def _ignore_interrupts() -> None:
    """Ctrl-C comes to all processes of a terminal; the first of them ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
