"""Twenty concurrent transactions append and a third roll back, while broker, clients and database are killed.

The database records what was committed, and when: the log must have exactly this, once, and in that order.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event

import psycopg
import pytest
from gateway_brokers import ProcessBroker
from gateway_client import RawClient
from sqlalchemy import make_url

from tests.long_form import rounds
from tests.postgres import Postgres, postgres, postgres_server

__all__ = ["postgres", "postgres_server"]

ROUNDS = rounds(1, 25)
PROCESSES, PARTITIONS = 4, 3
SOME = 40
"""The number of records committed between two kills."""
WRITER = Path(__file__).with_name("outbox_writer.py")
IN_ORDER_OF_COMMITS = "SELECT label FROM truth WHERE partition = %s ORDER BY pg_xact_commit_timestamp(xmin), seq"


class Writers:
    """Processes that write to the outbox, and may be killed and replaced."""

    def __init__(self, conninfo: str, random: Random) -> None:
        self._conninfo, self._random = conninfo, random
        self._processes = [self._started() for _ in range(PROCESSES)]

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, WRITER, self._conninfo, str(self._random.random())])

    def kill_one(self) -> None:
        at = self._random.randrange(PROCESSES)
        self._end(self._processes[at])
        self._processes[at] = self._started()

    def kill_all(self) -> None:
        for process in self._processes:
            self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert process.poll() is None, "a writer has ended by itself"
        process.kill()
        process.wait()


@contextmanager
def asked(conninfo: str) -> Iterator[psycopg.Connection]:
    """A connection; waits for a server that has just restarted."""
    with psycopg.connect(conninfo, autocommit=True, connect_timeout=30) as connection:
        yield connection


def committed(conninfo: str) -> int:
    with asked(conninfo) as connection:
        return connection.execute("SELECT count(*) FROM truth").fetchone()[0]


def await_more(conninfo: str) -> None:
    """Waits until more transactions are committed."""
    wanted = committed(conninfo) + SOME
    for _ in range(1200):
        if committed(conninfo) >= wanted:
            return
        Event().wait(0.05)
    pytest.fail("the writers do not get on")


def await_empty(conninfo: str) -> None:
    """Waits until the outbox has no committed records left."""
    for _ in range(1200):
        with asked(conninfo) as connection:
            if not connection.execute("SELECT count(*) FROM odradek_outbox").fetchone()[0]:
                return
        Event().wait(0.05)
    pytest.fail("the outbox is not emptied")


@pytest.mark.torture
@pytest.mark.timeout(3000)
def test_what_was_committed_is_read_once_in_the_order_of_commits(
    postgres: str, postgres_server: Postgres, tmp_path: Path
) -> None:
    conninfo = make_url(postgres).set(drivername="postgresql").render_as_string()
    random = Random(f"outbox {ROUNDS}")
    broker = ProcessBroker(tmp_path / "data", "--set", "odradek.log.retry.backoff.max.ms=100", storage=postgres)
    broker.start()
    with RawClient(broker.address) as client:
        client.create_topic("t", PARTITIONS)
    with asked(conninfo) as connection:
        connection.execute("CREATE TABLE truth (label text, partition int, seq int)")
    writers = Writers(conninfo, random)

    def kill_broker() -> None:
        broker.kill()
        await_more(conninfo)
        broker.start()

    def kill_database() -> None:
        postgres_server.kill()
        postgres_server.start()

    for _ in range(ROUNDS):
        for kill in random.sample([kill_broker, writers.kill_one, kill_database], 3):
            await_more(conninfo)
            kill()
    await_more(conninfo)
    writers.kill_all()
    await_empty(conninfo)
    with asked(conninfo) as connection, RawClient(broker.address) as client:
        for partition in range(PARTITIONS):
            expected = [label for (label,) in connection.execute(IN_ORDER_OF_COMMITS, [partition])]
            assert len(expected) > SOME
            assert [value.decode() for value in client.values("t", partition)] == expected
        assert connection.execute("SELECT count(*) FROM odradek_outbox_dead").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM odradek_outbox_turns").fetchone() == (0,)
    assert broker.terminate() == 0
    assert "Traceback" not in broker.log()
