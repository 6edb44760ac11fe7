"""CPU time and memory of a process, from /proc. Load generators are separate processes, so they are not included."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_USER_FIELD, _SYSTEM_FIELD = 11, 12  # counted after the command's closing parenthesis; fields 14 and 15 in proc(5)


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads, running and ended, so far. Resolution: 10 ms."""
    return parse_stat(Path(f"/proc/{pid}/stat").read_text()) / _TICKS_A_SECOND


def parse_stat(text: str) -> int:
    """utime + stime of a `stat` line, in ticks; the command in it may contain spaces and parentheses."""
    fields = text.rpartition(")")[2].split()
    return int(fields[_USER_FIELD]) + int(fields[_SYSTEM_FIELD])


def memory_mb(pid: int) -> dict[str, float]:
    """Resident, proportional and anonymous memory in MB (10^6 bytes), as `rss`, `pss` and `anonymous`."""
    return parse_smaps_rollup(Path(f"/proc/{pid}/smaps_rollup").read_text())


def parse_smaps_rollup(text: str) -> dict[str, float]:
    """The three sums of a `smaps_rollup`, converted from kibibytes to MB."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in {"Rss", "Pss", "Anonymous"}:
            found[name.lower()] = int(rest.split()[0]) * 1024 / 1e6
    return found
