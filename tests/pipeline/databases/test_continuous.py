"""A continuous job waits for servers that are down, continues after the committed position, and ends by a signal."""

import os
import signal
from collections.abc import Callable

import pytest

from odradek.pipeline.cli.databases import run_job
from odradek.pipeline.databases.engine import TransientError
from odradek.pipeline.errors import PipelineError


class Job:
    """Takes one of `steps` per run, and records the calls."""

    def __init__(self, *steps: object) -> None:
        self.steps = list(steps)
        self.calls: list[str] = []

    def run(self, _meter: object, stopped: Callable[[], bool] = lambda: False) -> None:
        assert not stopped()
        self.calls.append("run")
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, signal.Signals):
            os.kill(os.getpid(), step)
            assert stopped()

    def waiting(self) -> int:
        return 0

    def recover(self) -> None:
        self.calls.append("recover")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_recovers_from_what_passes_and_ends_with_a_signal(capsys, number):
    job = Job(None, TransientError("the database is away"), None, number)
    run_job(job, "load", 0.0)
    assert job.calls == ["run", "run", "recover", "run", "run"]
    assert capsys.readouterr().err == "the database is away; trying again in 0 s\n"


def test_what_does_not_pass_ends_it():
    job = Job(None, PipelineError("column 'a': 'x' is no int"))
    with pytest.raises(PipelineError, match="is no int"):
        run_job(job, "load", 0.0)


def test_a_single_run_ends_with_any_failure():
    with pytest.raises(TransientError):
        run_job(Job(TransientError("away")), "load", None)
