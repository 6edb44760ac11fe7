"""Runs many seeds, several at a time, each in a process of its own, since one run uses one processor."""

import multiprocessing
import signal
from collections.abc import Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice

from odradek.gateway.testing.simulation.cluster.run import Plan, Result, simulate


def results(plans: Iterable[Plan], jobs: int) -> Generator[Result]:
    """Run all plans, `jobs` at a time; if `jobs` > 1, results are in the order in which the runs end.

    Closing the generator, or an interrupt, stops the runs under way.
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
    """Ignore Ctrl-C, which the terminal sends to all processes: the main process ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
