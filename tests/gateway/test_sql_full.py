"""A database without space: a SQLite file on a small file system, a PostgreSQL database in a small tablespace."""

import os
import pwd
import subprocess
import tempfile
from pathlib import Path
from random import Random

import pytest
from gateway_brokers import ProcessBroker
from gateway_client import RawClient, batch_of

from odradek.wire.errors import ErrorCode
from tests.postgres import ACCOUNT, postgres_server

__all__ = ["postgres_server"]

BALLAST_BYTES = 12 * 1024 * 1024
VALUE_BYTES = 400_000
RANDOM = Random(13)


@pytest.fixture
def small():
    """A separate file system of 40 MB, with a file that can be removed to make room."""
    folder = Path(tempfile.mkdtemp(prefix="odradek-small-"))  # other users cannot enter pytest's folders
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        folder.rmdir()
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    folder.chmod(0o755)
    (folder / "ballast").write_bytes(b"x" * BALLAST_BYTES)
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, small):
    if request.param == "sqlite":
        yield f"sqlite://{small}/store.db"
        return
    server = request.getfixturevalue("postgres_server")
    space = small / "space"
    space.mkdir()
    os.chown(space, *pwd.getpwnam(ACCOUNT)[2:4])
    server.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
    server.execute("CREATE DATABASE full_up TABLESPACE small")
    yield server.url("full_up")
    server.execute("DROP DATABASE full_up WITH (FORCE)")
    server.execute("DROP TABLESPACE small")


def test_it_refuses_until_there_is_room_again(url, small, tmp_path):
    acknowledged = []
    with (
        ProcessBroker(tmp_path / "data", "--set", "odradek.log.retry.backoff.max.ms=50", storage=url) as broker,
        RawClient(broker.address) as client,
    ):
        client.create_topic("t", **{"retention.ms": "-1"})

        def produce(number):
            value = b"%d " % number + RANDOM.randbytes(VALUE_BYTES)  # random bytes, which PostgreSQL does not compress
            error = client.produce("t", batch_of(value)).error_code
            if error == 0:
                acknowledged.append(value)
            return error

        while (error := produce(len(acknowledged))) == 0:
            assert len(acknowledged) < 200
        assert error == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(acknowledged) > 10
        assert client.values("t") == acknowledged
        (small / "ballast").unlink()
        for _ in range(1000):
            if (error := produce(-1)) == 0:
                break
            assert error == ErrorCode.KAFKA_STORAGE_ERROR
        for number in range(5):
            assert produce(number) == 0
        assert client.values("t") == acknowledged
        lines = [line for line in broker.log().splitlines() if "t-0" in line and "no space is left" in line]
        assert len(lines) == 1
        broker.kill()
        broker.start()
        with RawClient(broker.address) as again:
            assert again.values("t") == acknowledged
