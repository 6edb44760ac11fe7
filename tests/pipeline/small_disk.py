"""A small file system, for tests of jobs and brokers with a full disk."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MB = 1024 * 1024


@contextmanager
def small_file_system(folder: Path, size_mb: int, ballast_mb: int) -> Iterator[Path]:
    """Mounts one of `size_mb` at `folder`, with a file `ballast` of `ballast_mb`.

    Requires root; otherwise the test is skipped.
    """
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
