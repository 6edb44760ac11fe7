"""Runs the nodes of a cluster as child processes, and restarts a node that has ended."""

import errno
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Final

import trio

from odradek.gateway.env.stop_signals import ASK_TO_STOP, STOP_SIGNALS
from odradek.gateway.notify import READY, STOPPING, notify
from odradek.gateway.supervision.layout import NodePlan, node_environment

log = logging.getLogger(__name__)

RESTART_S: Final = 0.5
RESTART_MAX_S: Final = 30.0
STEADY_S: Final = 60.0
"""A node that has run for this long begins again with the shortest pause."""


class NodeStartError(Exception):
    """A node ended before it served for the first time, or its process could not be started."""


class SupervisedNode:
    """One node's process, restarted whenever it ends. `ready` is set when the node serves for the first time."""

    def __init__(self, plan: NodePlan, command: Sequence[str]) -> None:
        self.plan = plan
        self.ready = trio.Event()
        self.ended = trio.Event()
        self.is_draining = False
        """True from the first `begin_stop` on."""
        self._command = command
        self._process: trio.Process | None = None
        self._stopping = trio.Event()

    async def run(self) -> None:
        """Keep the process running until `begin_stop` or `hold`.

        Raises NodeStartError if it ends, or cannot be started, before it has ever served.
        """
        pause_s = RESTART_S
        try:
            while not self._stopping.is_set():
                started_at = trio.current_time()
                how = await self._run_once()
                if self._stopping.is_set():
                    return
                pause_s = RESTART_S if trio.current_time() - started_at >= STEADY_S else pause_s
                log.warning("node ended node_id=%d %s, started again in_s=%.1f", self.plan.node_id, how, pause_s)
                with trio.move_on_after(pause_s):
                    await self._stopping.wait()
                pause_s = min(2 * pause_s, RESTART_MAX_S)
        finally:
            self.ended.set()

    async def _run_once(self) -> str:
        """Run the process until it ends; returns how it ended, for the log.

        A process that cannot be started counts as one that ends: a shortage of memory, say, may pass. Raises
        NodeStartError.
        """
        name = f"node {self.plan.node_id}"
        try:
            process = await self._open()
        except OSError as error:
            if self._must_serve():
                raise NodeStartError(f"the process of {name} cannot be started: {error}") from error
            return f"cause={error}"
        code = await self._ended(process)
        if self._must_serve():
            raise NodeStartError(f"{name} ended with exit code {code} before it served")
        return f"code={code}"

    def _must_serve(self) -> bool:
        return not (self.ready.is_set() or self._stopping.is_set())

    async def _ended(self, process: trio.Process) -> int:
        """Wait until the process has ended; returns its exit code."""
        self._process = process
        if self._stopping.is_set():  # set while the process was being started
            process.terminate()
        try:
            assert process.stdout is not None
            if await process.stdout.receive_some():  # the node prints one line once it serves
                log.info("node serves node_id=%d pid=%d", self.plan.node_id, process.pid)
                self.ready.set()
                async for _ in process.stdout:
                    pass
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            self._process = None

    async def _open(self) -> trio.Process:
        """Start the process. Raises OSError."""
        try:
            return await _open_apart(list(self._command), node_environment(os.environ))
        except RuntimeError as error:  # Trio starts processes in a thread, and there is none
            raise OSError(errno.EAGAIN, str(error)) from error

    def begin_stop(self) -> None:
        """Drain the node and do not restart it.

        A second call ends it at once, because the process gets a second signal.
        """
        self._stopping.set()
        self.is_draining = True
        if self._process is None:
            return
        self._process.send_signal(ASK_TO_STOP)

    def hold(self) -> None:
        """Do not restart the process when it ends, or has ended."""
        self._stopping.set()


async def _open_apart(command: list[str], environment: dict[str, str]) -> trio.Process:
    """Start a process that does not get a Ctrl-C of the terminal, so that the nodes drain in turn."""
    pipe, start = subprocess.PIPE, trio.lowlevel.open_process
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
        return await start(command, stdin=pipe, stdout=pipe, env=environment, creationflags=flags)
    return await start(command, stdin=pipe, stdout=pipe, env=environment, start_new_session=True)


class Supervisor:
    """All nodes of one cluster. `on_ready` is called once, when all of them serve.

    The service manager is notified for all of them, when they serve and when they stop (`gateway.notify`).
    """

    def __init__(self, nodes: Sequence[SupervisedNode], on_ready: Callable[[], None]) -> None:
        self._nodes = nodes
        self._on_ready = on_ready

    async def run(self) -> None:
        """Run the nodes until SIGTERM or SIGINT, and return when they have drained, one after the other.

        At a second signal all that have not begun to drain begin at once; at a signal after that all end. Raises
        NodeStartError.
        """
        with trio.open_signal_receiver(*STOP_SIGNALS) as received:
            async with trio.open_nursery() as nursery:
                for node in self._nodes:
                    nursery.start_soon(node.run)
                nursery.start_soon(self._call_when_ready)
                await received.__anext__()
                log.info("stopping nodes=%d", len(self._nodes))
                notify(STOPPING, f"stopping {len(self._nodes)} nodes in turn")
                nursery.start_soon(self._stop_at_further_signals, received)
                await self._drain()
                nursery.cancel_scope.cancel()

    async def _call_when_ready(self) -> None:
        for node in self._nodes:
            await node.ready.wait()
        self._on_ready()
        notify(READY, f"{len(self._nodes)} nodes serve")

    async def _drain(self) -> None:
        for node in self._nodes:
            node.hold()
        # the first nodes are controllers, which the shutdown of nodes that are only brokers needs
        for node in reversed(self._nodes):
            if not node.is_draining:
                node.begin_stop()
            await node.ended.wait()

    async def _stop_at_further_signals(self, received: AsyncIterator[int]) -> None:
        async for _ in received:
            serving = [node for node in self._nodes if not node.is_draining]
            for node in serving or self._nodes:
                node.begin_stop()


def node_command(file: Path, arguments: Sequence[str]) -> list[str]:
    """The command of a node with the settings in `file`, which stops when its standard input ends.

    The supervisor holds the other end of that pipe, so nodes stop however the supervisor ends.
    """
    return [sys.executable, "-m", "odradek", "serve", "--config", str(file), "--until-stdin-ends", *arguments]
