"""A broker over PostgreSQL writes the records of committed database transactions, once, in the order of commits."""

from contextlib import contextmanager
from pathlib import Path
from threading import Event

import psycopg
import pytest
from gateway_brokers import ProcessBroker
from gateway_client import RawClient, batch_of
from sqlalchemy import make_url

from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]

CUT_LISTENER = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
)
NO_POLL = ("--set", "odradek.outbox.poll.interval.ms=3600000")


class Outbox:
    """A broker, a client of it, and connections to its database."""

    def __init__(self, broker: ProcessBroker, url: str) -> None:
        self.broker = broker
        self.client = RawClient(broker.address)
        self._conninfo = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self.sql = self.connect(autocommit=True)

    def connect(self, **options) -> psycopg.Connection:
        return psycopg.connect(self._conninfo, **options)

    def append(self, topic="t", value=b"v", key=None, headers=None, partition=0, *, sql=None) -> int:
        statement = "SELECT odradek.append(%s, %s, %s, %s, %s)"
        return (sql or self.sql).execute(statement, [topic, key, value, headers, partition]).fetchone()[0]

    def now_ms(self) -> int:
        """The database's clock."""
        return int(self.sql.execute("SELECT extract(epoch FROM clock_timestamp()) * 1000").fetchone()[0])

    def await_records(self, count: int, topic="t", partition=0):
        """Returns the records of a partition once there are `count`."""
        for _ in range(600):
            if self.client.end_offset(topic, partition) >= count:
                break
            Event().wait(0.05)
        return [record for _, records in self.client.fetch_all(topic, partition) for record in records]

    def await_dead(self, count: int) -> list[tuple]:
        """Returns the dead letters' values and reasons once there are `count`."""
        found = []
        for _ in range(600):
            found = self.sql.execute("SELECT value, reason FROM odradek_outbox_dead ORDER BY id").fetchall()
            if len(found) >= count:
                break
            Event().wait(0.05)
        return found

    def alter(self, topic: str, **configs: str) -> None:
        changes = tuple(
            AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
            for name, value in configs.items()
        )
        resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=changes)
        [answer] = self.client.call(IncrementalAlterConfigsRequest(resources=(resource,))).responses
        assert answer.error_code == 0, answer

    def delete(self, topic: str) -> None:
        [answer] = self.client.call(DeleteTopicsRequest(topic_names=(topic,), timeout_ms=30_000)).responses
        assert answer.error_code == 0, answer

    def close(self) -> None:
        self.client.close()
        self.sql.close()


@contextmanager
def running(url: str, folder: Path, *settings: str):
    """A broker over a database, and its outbox."""
    broker = ProcessBroker(folder / "data", *settings, storage=url)
    broker.start()
    made = Outbox(broker, url)
    yield made
    made.close()
    assert broker.terminate() == 0
    assert "Traceback" not in broker.log()


@pytest.fixture(scope="module")
def shared(postgres_server, tmp_path_factory):
    """A shared broker that does not poll, so that it only finds what notifications announce."""
    with running(postgres_server.create_database(), tmp_path_factory.mktemp("shared"), *NO_POLL) as made:
        yield made


@pytest.fixture
def outbox(shared):
    """The shared outbox, without topics and dead letters."""
    shared.sql.close()  # a test may have killed the server
    shared.sql = shared.connect(autocommit=True)
    yield shared
    for name in shared.sql.execute("SELECT topic FROM odradek_outbox_topics").fetchall():
        shared.delete(*name)
    shared.sql.execute("TRUNCATE odradek_outbox_dead")
    shared.broker.log_path.write_text("")


@pytest.fixture
def own(postgres, tmp_path):
    """An outbox for one test, with a poll interval of 100 ms."""
    with running(postgres, tmp_path, "--set", "odradek.outbox.poll.interval.ms=100") as made:
        yield made


def test_what_is_committed_is_read_at_once_with_all_that_it_has(outbox):
    outbox.client.create_topic("t", 3)
    before = outbox.now_ms()
    outbox.append(value=b"v", key=b"k", headers='{"a": "b"}', partition=2)
    [record] = outbox.await_records(1, partition=2)
    assert (record.key, record.value, record.headers) == (b"k", b"v", (("a", b"b"),))
    assert before <= record.timestamp_ms <= outbox.now_ms()
    assert outbox.append(value=None, key=b"abc", partition=None) == 479470107 % 3
    assert outbox.await_records(1, partition=479470107 % 3)[-1].value is None


def test_order_is_that_of_commits_and_rollbacks_never_show(outbox):
    outbox.client.create_topic("t")
    with outbox.connect() as first, outbox.connect() as second, outbox.connect() as third:
        for connection, value in ((first, b"1"), (second, b"2"), (third, b"3"), (first, b"4")):
            outbox.append(value=value, sql=connection)
        second.commit()
        assert [record.value for record in outbox.await_records(1)] == [b"2"]
        third.rollback()
        first.commit()
        assert [record.value for record in outbox.await_records(3)] == [b"2", b"1", b"4"]
        outbox.append(value=b"5", sql=third)
        third.commit()
    assert [record.value for record in outbox.await_records(4)] == [b"2", b"1", b"4", b"5"]


def test_changed_topics_are_known_when_the_change_is_answered(outbox):
    for number in range(20):
        outbox.client.create_topic(f"t{number}")
        outbox.append(f"t{number}")
    grown = CreatePartitionsTopic(name="t0", count=2, assignments=None)
    [answer] = outbox.client.call(CreatePartitionsRequest(topics=(grown,), timeout_ms=30_000)).results
    assert answer.error_code == 0
    outbox.append("t0", partition=1)
    outbox.alter("t0", max_message_bytes="100")
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        outbox.append("t0", value=b"x" * 100)
    outbox.alter("t0", cleanup_policy="compact")
    with pytest.raises(psycopg.errors.NotNullViolation):
        outbox.append("t0")
    outbox.delete("t1")
    with pytest.raises(psycopg.errors.UndefinedObject):
        outbox.append("t1")
    with pytest.raises(psycopg.errors.UndefinedObject):
        outbox.append("__consumer_offsets")


def test_records_that_the_topic_does_not_take_any_more_are_dead_letters(outbox):
    for name in ("t", "gone", "compacted"):
        outbox.client.create_topic(name)
    with outbox.connect() as late:
        for name in ("t", "gone", "compacted"):
            for key, value in ((b"k", b"small"), (None, b"x" * 100), (b"k", b"last")):
                outbox.append(name, key=key, value=value, sql=late)
        outbox.alter("t", max_message_bytes="150")
        outbox.alter("compacted", cleanup_policy="compact")
        outbox.delete("gone")
        outbox.client.create_topic("gone")  # another topic of the same name
        late.commit()
    assert [record.value for record in outbox.await_records(2)] == [b"small", b"last"]
    assert [record.value for record in outbox.await_records(2, "compacted")] == [b"small", b"last"]
    reasons = {}
    for value, reason in outbox.await_dead(5):
        reasons.setdefault(reason, []).append(value)
    assert reasons.pop("the topic was deleted") == [b"small", b"x" * 100, b"last"]
    assert {reason.split(":")[0]: values for reason, values in reasons.items()} == {
        "MESSAGE_TOO_LARGE": [b"x" * 100],
        "INVALID_RECORD": [b"x" * 100],
    }
    assert outbox.client.end_offset("gone") == 0
    assert outbox.broker.log().count("became dead letters") == 3
    assert outbox.sql.execute("SELECT count(*) FROM odradek_outbox").fetchone() == (0,)


def test_with_log_append_time_the_timestamps_are_the_brokers(outbox):
    outbox.client.create_topic("t", message_timestamp_type="LogAppendTime")
    with outbox.connect() as late:
        outbox.append(sql=late)
        passed = outbox.now_ms() + 1
        while outbox.now_ms() < passed:
            Event().wait(0.001)
        late.commit()
    [record] = outbox.await_records(1)
    assert record.timestamp_ms >= passed


def test_a_transaction_of_many_records_comes_whole_and_in_order(outbox):
    outbox.client.create_topic("t", 2, max_message_bytes="20000")
    outbox.sql.execute(
        "SELECT odradek.append('t', NULL, repeat('x', 100) || n, NULL, n % 2) FROM generate_series(0, 4999) AS n"
    )
    for partition in (0, 1):
        records = outbox.await_records(2500, partition=partition)
        assert [int(record.value[100:]) for record in records] == list(range(partition, 5000, 2))


def test_what_was_appended_while_no_broker_ran_comes_when_one_does(own):
    own.client.create_topic("t")
    assert own.client.produce("t", batch_of(b"before")).error_code == 0
    own.client.close()
    own.broker.kill()
    for number in range(5):
        own.append(value=b"%d" % number)
    own.broker.start()
    own.client = RawClient(own.broker.address)
    assert [record.value for record in own.await_records(6)] == [b"before", b"0", b"1", b"2", b"3", b"4"]


def test_a_lost_notification_is_made_up_for(own):
    own.client.create_topic("t")
    own.append(value=b"1")
    own.await_records(1)
    # Inserts what the trigger would insert, without its notification.
    own.sql.execute("ALTER TABLE odradek_outbox DISABLE TRIGGER odradek_outbox_turns")
    with own.connect() as silent:
        own.append(value=b"2", sql=silent)
        columns = "transaction_id, topic_id, partition"
        numbered = f"SELECT nextval('odradek_outbox_turn'), {columns} FROM odradek_outbox"
        silent.execute(f"INSERT INTO odradek_outbox_turns {numbered}")
    assert [record.value for record in own.await_records(2)] == [b"1", b"2"]


def test_a_broken_connection_is_made_again_and_what_came_meanwhile_is_found(outbox):
    outbox.client.create_topic("t")
    for number in range(5):
        while not outbox.sql.execute(CUT_LISTENER).fetchall():
            Event().wait(0.01)
        outbox.append(value=b"%d" % number)
        assert outbox.await_records(number + 1)[-1].value == b"%d" % number


def test_while_the_database_was_away_nothing_is_lost_or_repeated(own, postgres_server):
    own.client.create_topic("t")
    own.append(value=b"1")
    own.await_records(1)
    open_one = own.connect()
    own.append(value=b"never", sql=open_one)
    postgres_server.kill()
    postgres_server.start()
    open_one.close()
    own.sql.close()
    own.sql = own.connect(autocommit=True)
    own.append(value=b"2")
    assert [record.value for record in own.await_records(2)] == [b"1", b"2"]
