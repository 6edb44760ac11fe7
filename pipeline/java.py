"""The Java that Spark runs on: found where the system has it."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from odradek.pipeline.errors import MissingError

OLDEST, NEWEST = 17, 21
_INSTALLED: Final = Path("/usr/lib/jvm")
_VERSION: Final = re.compile(r'version "(\d+)')


def find_java() -> Path:
    """The java of JAVA_HOME, of the PATH or of /usr/lib/jvm that Spark 4 runs on. Raises MissingError."""
    seen: list[str] = []
    for candidate in _candidates():
        major = _major(candidate)
        if major is not None and OLDEST <= major <= NEWEST:
            return candidate
        seen.append(f"{candidate} is {'no Java' if major is None else f'Java {major}'}")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise MissingError(
        f"Spark needs Java {OLDEST} to {NEWEST}, and there is none{found}. Debian, Ubuntu: apt-get install "
        "openjdk-17-jre-headless; macOS: brew install openjdk@17; others: https://adoptium.net. Set JAVA_HOME where it "
        "is not on the PATH."
    )


def _candidates() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    named = [Path(home) / "bin" / "java"] if home else []
    named += [Path(on_path)] if on_path else []
    return named + sorted(_INSTALLED.glob("*/bin/java"))


def _major(java: Path) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr)
    return int(match[1]) if match else None
