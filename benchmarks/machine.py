"""A description of the machine and the versions that were measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from compat_tests.real_kafka import UnavailableError, jars_folder, java_command

READY_BYTES = 800_000_000
"""Approximately the bytes that one round of the largest load writes."""
_READY_WRITE_BYTES = 4 * 1024 * 1024
PACKAGES = ("odradek", "trio", "lmdb", "confluent-kafka")


def description() -> dict[str, str]:
    """The machine, the versions, and the machine's load before the run."""
    found = {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB, {platform.system()} "
        f"{platform.release()}",
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "Python": platform.python_version(),
        "Kafka": _kafka(),
        "Java": _java(),
    }
    return found | {name: _version(name) for name in PACKAGES}


def _processor() -> str:
    named = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return named[1].strip() if named else platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _kafka() -> str:
    jars = sorted((jars_folder() / "kafka").glob("kafka_2.13-*.jar"))
    return jars[0].stem.rpartition("-")[2] if jars else "no jars"


def _java() -> str:
    try:
        done = subprocess.run([java_command(), "-version"], capture_output=True, text=True, timeout=20, check=False)
    except UnavailableError as error:
        return str(error)
    named = re.search(r'version "([^"]+)"', done.stderr)
    return named[1] if named else "unknown"


def ready_memory(folder: Path) -> None:
    """Write a file as large as a round's log, and remove it, so that the machine has memory for the page cache.

    The host of a virtual machine takes memory back that the machine has not used for some seconds, in blocks of 2 MB,
    and returns it at the first access, which takes ten times as long as filling it. Otherwise the side measured first
    would be slowed by this, and the other side would use the memory that the first has just released.
    """
    filler, name = bytes(_READY_WRITE_BYTES), folder / "ready"
    with name.open("wb", buffering=0) as file:
        for _ in range(0, READY_BYTES, _READY_WRITE_BYTES):
            file.write(filler)
    name.unlink()
