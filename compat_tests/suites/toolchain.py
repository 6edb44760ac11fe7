"""Builds the test binaries of Go packages from pinned modules (`franz_go/go.mod`, `franz_go/go.sum`)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from compat_tests.processes import ROOT

MODULE = Path(__file__).parent / "franz_go"
BUILD_TIMEOUT_S = 540


class NoGoError(Exception):
    """Go or the modules are not available; the message has the reason and what to do."""


def go_home() -> Path:
    """The folder of toolchain, modules, build cache and binaries."""
    return Path(os.environ.get("ODRADEK_GO", ROOT / ".cache" / "go"))


def test_binary(package: str) -> Path:
    """The compiled tests of a package of franz-go, e.g. ``pkg/kgo``. Raises NoGoError."""
    go = _go_command()
    binary = go_home() / "bin" / f"{package.replace('/', '-')}.test"
    binary.parent.mkdir(parents=True, exist_ok=True)
    # Always run: the go command checks what is up to date.
    command = [go, "test", "-c", "-o", str(binary), f"github.com/twmb/franz-go/{package}"]
    built = subprocess.run(
        command, cwd=MODULE, env=_environment(), capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    if built.returncode != 0:
        raise NoGoError(f"{package} does not build: {(built.stderr or built.stdout).strip()[-300:]}")
    return binary


def _go_command() -> str:
    ensured = subprocess.run(
        [str(ROOT / "scripts" / "ensure_go.sh")], capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=True
    )
    kind, _, path = ensured.stdout.strip().splitlines()[-1].partition(": ")
    if kind != "go":
        raise NoGoError(ensured.stderr.strip()[-300:])
    return path


def _environment() -> dict[str, str]:
    """Pinned by go.sum: no newer toolchain is fetched, and go.mod is not changed."""
    home = go_home()
    return {
        **os.environ,
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-modcacherw -mod=readonly -buildvcs=false",
        "GOMODCACHE": str(home / "mod"),
        "GOCACHE": str(home / "build"),
        "CGO_ENABLED": "0",
    }
