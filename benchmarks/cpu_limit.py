"""Limits processes to a share of a core each by control groups (v2 or v1), so that a load has time of its own.

On a machine with few cores a load and the brokers compete for them. If each broker gets a small share of a core, the
machine behaves like one with more and slower cores: the brokers are bound by their processor time, and the load is not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from benchmarks.cases import NotMeasuredError

PERIOD_US = 100_000
CPU_BOUND = 0.8
"""The share of periods in which a process must have used up its share, to count as bound by its processor time."""
_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))


@contextmanager
def limited(pids: Sequence[int], cores: float) -> Iterator[None]:
    """Limit each process to `cores` of a core, in a control group of its own.

    Raises NotMeasuredError, also at the end if a process was not bound by its processor time.
    """
    with ExitStack() as stack:
        limits: list[Limit] = []
        for pid in pids:
            limits.append(Limit(pid, cores))
            stack.callback(limits[-1].end)
        yield
        for each in limits:
            periods, used_up = each.periods()
            if used_up < CPU_BOUND * periods:
                raise NotMeasuredError(f"a broker used up its share in {used_up} of {periods} periods only")


class Limit:
    """The control group of one process."""

    def __init__(self, pid: int, cores: float) -> None:
        root, self._is_v2 = _controller()
        self._parent = root
        self._group = root / f"odradek-bench-{os.getpid()}-{pid}"
        self._pid = pid
        quota_us = round(PERIOD_US * cores)
        try:
            self._group.mkdir()
            if self._is_v2:
                (self._group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            else:
                (self._group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (self._group / "cpu.cfs_quota_us").write_text(str(quota_us))
            (self._group / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            with suppress(OSError):
                self._group.rmdir()
            raise NotMeasuredError(f"cannot limit a process to a share of a core: {error}") from error

    def periods(self) -> tuple[int, int]:
        """The periods so far in which the process was runnable, and those in which it used up its share."""
        return parse_cpu_stat((self._group / "cpu.stat").read_text())

    def end(self) -> None:
        """Wait until the process has ended, or move it out, and remove the group."""
        if Path(f"/proc/{self._pid}").exists():
            (self._parent / "cgroup.procs").write_text(str(self._pid))
        while (self._group / "cgroup.procs").read_text().strip():
            time.sleep(0.01)
        self._group.rmdir()


def parse_cpu_stat(text: str) -> tuple[int, int]:
    """`nr_periods` and `nr_throttled` of a `cpu.stat`."""
    found = dict(line.split() for line in text.splitlines())
    return int(found["nr_periods"]), int(found["nr_throttled"])


def _controller() -> tuple[Path, bool]:
    """The root of the controller `cpu`, and whether it is of version 2. Raises NotMeasuredError."""
    unified, v1 = _ROOTS
    controllers = unified / "cgroup.subtree_control"
    if controllers.exists():
        if "cpu" not in controllers.read_text().split():
            raise NotMeasuredError("the control group's controller `cpu` is not enabled for child groups")
        return unified, True
    if (v1 / "cpu.cfs_quota_us").exists():
        return v1, False
    raise NotMeasuredError("this machine has no control groups that limit the processor time")
