"""Finds the Java for Spark."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from odradek.pipeline.errors import MissingError

OLDEST, NEWEST = 17, 21
INSTALLED: Final = Path("/usr/lib/jvm")
_RELEASE: Final = Path("/etc/os-release")
_FIELD: Final = re.compile(r"^(\w+)=(.*)$", re.MULTILINE)
_COMMANDS: Final = {
    "debian": "sudo apt-get install default-jre-headless",
    "ubuntu": "sudo apt-get install openjdk-21-jre-headless",
    "fedora": "sudo dnf install java-21-openjdk-headless",
    "rhel": "sudo dnf install java-21-openjdk-headless",
    "suse": "sudo zypper install java-21-openjdk-headless",
    "alpine": "sudo apk add openjdk21-jre-headless",
    "arch": "sudo pacman -S jre21-openjdk-headless",
}
"""By ID or ID_LIKE of /etc/os-release; Debian's default Java is 17 or 21 since version 12."""
ELSEWHERE: Final = "https://adoptium.net/temurin/releases?version=21"
_VERSION: Final = re.compile(r'version "(\d+)')


def find_java() -> Path:
    """Return a java of JAVA_HOME, the PATH or /usr/lib/jvm that Spark 4 supports. Raises MissingError."""
    seen: list[str] = []
    for candidate in _candidates():
        major = _major(candidate)
        if major is not None and OLDEST <= major <= NEWEST:
            return candidate
        seen.append(f"{candidate} is {'no Java' if major is None else f'Java {major}'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise MissingError(
        f"Spark needs Java {OLDEST} to {NEWEST}, and there is none{found}. To get it: {how_to_get_it()}; or set "
        "JAVA_HOME to one that is not on the PATH"
    )


def how_to_get_it(release: Path = _RELEASE, system: str = sys.platform) -> str:
    """Return the command that installs Java on this system, or where to find one."""
    if system == "darwin":
        return "brew install openjdk@17"
    try:
        text = release.read_text(encoding="utf-8")
    except OSError:
        return ELSEWHERE
    kinds = " ".join(value.strip("\"'") for name, value in _FIELD.findall(text) if name in ("ID", "ID_LIKE")).split()
    return next((_COMMANDS[kind] for kind in kinds if kind in _COMMANDS), ELSEWHERE)


def _candidates() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    named = [Path(home) / "bin" / "java"] if home else []
    named += [Path(on_path)] if on_path else []
    return named + sorted(INSTALLED.glob("*/bin/java"))


def _major(java: Path) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr)
    return int(match[1]) if match else None
