"""What the tests of tables share."""

import gc
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Py4J and librdkafka leave sockets to the garbage collector, which is not what these tests are about."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(autouse=True)
def _collect_client_garbage() -> Iterator[None]:
    """Let what they left behind go now, and not in the middle of a test about something else."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        gc.collect()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 10 MB of which 7 MB are taken by a file `ballast`; root may mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"LOUD: no small file system can be mounted here: {done.stderr.strip()}")
    (folder / "ballast").write_bytes(bytes(7 * 1024 * 1024))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
