"""A file system that soon is full, for tests of jobs and brokers whose disk is."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MB = 1024 * 1024


@contextmanager
def small_file_system(folder: Path, size_mb: int, ballast_mb: int) -> Iterator[Path]:
    """Mount one of `size_mb` at `folder`, of which a file `ballast` takes `ballast_mb`; root may do so, others skip."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"LOUD: no small file system can be mounted here: {done.stderr.strip()}")
    (folder / "ballast").write_bytes(bytes(ballast_mb * MB))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
