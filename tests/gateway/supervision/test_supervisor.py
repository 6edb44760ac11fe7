"""The supervisor of a cluster on one machine, with small programs in place of nodes."""

import errno
import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from odradek.gateway.supervision.layout import NodePlan
from odradek.gateway.supervision.supervisor import NodeStartError, SupervisedNode, Supervisor

SERVES_AND_ENDS = "print('serves', flush=True); raise SystemExit(1)"
SERVES = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print('serves', flush=True)
signal.pause()
"""


def node(node_id: int, program: str) -> SupervisedNode:
    plan = NodePlan(node_id, 0, None, Path(), {})
    return SupervisedNode(plan, [sys.executable, "-c", program])


async def ended(nodes: list[SupervisedNode], after_s: float) -> float:
    """Runs a supervisor, sends SIGTERM `after_s` after all nodes were ready; returns how long the end took."""
    ready = trio.Event()
    finished = trio.Event()

    async def run() -> None:
        await Supervisor(nodes, ready.set).run()
        finished.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await ready.wait()
        await trio.sleep(after_s)
        asked_at = trio.current_time()
        os.kill(os.getpid(), signal.SIGTERM)
        await finished.wait()
        return trio.current_time() - asked_at


@pytest.mark.timeout(60)
async def test_a_pause_before_a_start_does_not_hold_up_the_stop(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("odradek.gateway.supervision.supervisor.RESTART_S", 600.0)
    assert await ended([node(1, SERVES_AND_ENDS), node(2, SERVES)], 1.0) < 30


DRAINS = """
import pathlib, signal, sys, time

def drain(*_):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    (folder / f"draining {number}").touch()
    while not (folder / "may drain").exists():
        time.sleep(0.01)
    (folder / f"drained {number}").touch()
    sys.exit(0)

folder, number = pathlib.Path(FOLDER), NUMBER
signal.signal(signal.SIGTERM, drain)
print('serves', flush=True)
signal.pause()
"""


async def exists(path: Path):
    while not await trio.Path(path).exists():  # noqa: ASYNC110 - made by a process
        await trio.sleep(0.01)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("signals", "drained"), [(1, {1, 2}), (2, {1, 2}), (3, set())])
async def test_nodes_drain_in_turn_then_all_then_none(tmp_path: Path, signals: int, drained: set[int]):
    programs = {
        number: DRAINS.replace("FOLDER", repr(str(tmp_path))).replace("NUMBER", str(number)) for number in (1, 2)
    }
    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Supervisor([node(*one) for one in programs.items()], ready.set).run)
        await ready.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await exists(tmp_path / "draining 2")
        assert not (tmp_path / "draining 1").exists()
        if signals > 1:
            os.kill(os.getpid(), signal.SIGTERM)
            await exists(tmp_path / "draining 1")
        if signals > 2:
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            (tmp_path / "may drain").touch()
    assert {number for number in programs if (tmp_path / f"drained {number}").exists()} == drained


@pytest.mark.timeout(60)
async def test_a_node_that_ends_is_started_again(tmp_path: Path):
    started = tmp_path / "started"
    again = node(1, f"open({str(started)!r}, 'a').write('x'); {SERVES_AND_ENDS}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(again.run)
        await again.ready.wait()
        while len(started.read_text()) < 2:  # noqa: ASYNC110 - of processes
            await trio.sleep(0.05)
        again.begin_stop()
        await again.ended.wait()


def failing_from(number: int, error: Exception, monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """Makes the start of processes fail from the `number`th on, until the event that it returns is set."""
    open_process, starts, over = trio.lowlevel.open_process, itertools.count(1), trio.Event()

    async def open_or_fail(*args: Any, **options: Any) -> trio.Process:
        if next(starts) >= number and not over.is_set():
            over.set()
            raise error
        return await open_process(*args, **options)

    monkeypatch.setattr(trio.lowlevel, "open_process", open_or_fail)
    return over


SHORTAGES = [OSError(errno.ENOMEM, "Cannot allocate memory"), RuntimeError("can't start new thread")]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("shortage", SHORTAGES, ids=["memory", "threads"])
async def test_a_node_whose_process_cannot_be_made_again_is_tried_until_it_can(
    tmp_path: Path, shortage: Exception, monkeypatch: pytest.MonkeyPatch
):
    started = tmp_path / "started"
    again = node(1, f"open({str(started)!r}, 'a').write('x'); {SERVES_AND_ENDS}")
    failed = failing_from(2, shortage, monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(again.run)
        await failed.wait()
        while len(started.read_text()) < 2:  # noqa: ASYNC110 - of processes
            await trio.sleep(0.05)
        again.begin_stop()
        await again.ended.wait()


@pytest.mark.parametrize("shortage", SHORTAGES, ids=["memory", "threads"])
async def test_a_node_whose_first_process_cannot_be_made_ends_the_supervisor(
    shortage: Exception, monkeypatch: pytest.MonkeyPatch
):
    failing_from(1, shortage, monkeypatch)
    with pytest.raises(ExceptionGroup) as raised:
        await Supervisor([node(1, SERVES)], lambda: None).run()
    message = "the process of node 1 cannot be started: .*(memory|thread)"
    assert raised.group_contains(NodeStartError, match=message)


@pytest.mark.timeout(60)
async def test_a_node_whose_process_is_being_made_is_stopped():
    """At that moment the supervisor has no process to send a signal to."""
    late = node(1, SERVES)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(late.run)
        await trio.testing.wait_all_tasks_blocked()
        late.begin_stop()
        await late.ended.wait()


@pytest.mark.timeout(60)
async def test_a_node_that_never_serves_ends_the_supervisor():
    with pytest.raises(ExceptionGroup) as raised:
        await Supervisor([node(1, "raise SystemExit(3)")], lambda: None).run()
    assert raised.group_contains(NodeStartError, match="node 1 ended with exit code 3 before it served")
