"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from compat_tests.real_kafka import UnavailableError, jars_folder, java_command

PACKAGES = ("odradek", "trio", "lmdb", "confluent-kafka")


def description() -> dict[str, str]:
    """The machine and the versions, and how busy it was before we began."""
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
