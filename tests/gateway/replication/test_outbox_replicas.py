"""The outbox serves the partitions whose only replica is its broker, as soon as the broker knows all topics."""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest
import trio
from role_fakes import NODE, OTHER, Inline, replicas_over
from sqlalchemy import make_url
from trio.testing import wait_all_tasks_blocked

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import PartitionImage, TopicImage
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.outbox.relay import OutboxRelay
from odradek.gateway.outbox.topics import OutboxTopics
from odradek.partitions.config import LogConfig
from odradek.storage_backends.interface import Store
from odradek.storage_backends.opener import open_store
from tests.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]

ALONE = PartitionImage((NODE,), (NODE,), NODE, 1, 1)
IDS = {"t": UUID(int=1), "another": UUID(int=2)}
POLL_MS = 50


class Node:
    """What a broker runs for its outbox, over a store in PostgreSQL; each instance is one life of the broker."""

    def __init__(self, store: Store, logs: trio.Nursery, nursery: trio.Nursery) -> None:
        outbox, env = store.outbox(), Inline()
        assert outbox is not None
        self.replicas = replicas_over(store, logs, env)
        self.metadata = MetadataPublisher()
        repeats, current = self.replicas.repeats, self.replicas.current
        topics = OutboxTopics(outbox, env, lambda _image, _topic: LogConfig(), repeats, NODE, current)
        self.metadata.call(self.replicas.on_published, topics.on_published)
        relay = OutboxRelay(outbox, env, self.replicas, self.metadata, repeats, POLL_MS)
        nursery.start_soon(topics.run)
        nursery.start_soon(relay.run)

    def publish(self, topic: str, partition: PartitionImage) -> None:
        """The topic's only partition is now this."""
        delta, topic_id = MetadataDelta(self.metadata.logged), IDS[topic]
        if self.metadata.image.topic(topic) is None:
            delta.topics.create(TopicImage(topic, topic_id, is_internal=False))
        delta.topics.set_partition(topic_id, 0, partition)
        delta.advance(delta.offset + 1, 0)
        self.metadata.publish(delta)

    async def end_offset(self, topic: str, at_least: int) -> int:
        """The end of the topic's log, once it is as high."""
        replica = self.replicas.find(topic, 0)
        await replica.ensure_open()
        with trio.fail_after(30):
            await replica.committed(at_least).wait()
        return replica.log.log_end_offset


@pytest.fixture
def store(postgres: str) -> Iterator[Store]:
    opened = open_store(postgres)
    yield opened
    opened.close()


@pytest.fixture
def conninfo(postgres: str) -> str:
    return make_url(postgres).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture
def sql(store: Store, conninfo: str) -> Iterator[psycopg.Connection]:
    del store  # it must have its tables
    with psycopg.connect(conninfo, autocommit=True) as connection:
        yield connection


def append(sql: psycopg.Connection, topic: str, value: bytes = b"v") -> None:
    sql.execute("SELECT odradek.append(%s, NULL, %s)", [topic, value])


def left(sql: psycopg.Connection) -> tuple[int, int]:
    """The numbers of waiting records and of dead letters."""
    statement = "SELECT (SELECT count(*) FROM odradek_outbox), (SELECT count(*) FROM odradek_outbox_dead)"
    return sql.execute(statement).fetchone()


async def await_topics(sql: psycopg.Connection, *names: str) -> None:
    """Returns when these can be appended to, and no others."""
    wanted = [(each,) for each in names]
    with trio.fail_after(30):
        while sql.execute("SELECT topic FROM odradek_outbox_topics ORDER BY 1").fetchall() != wanted:
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def living(store: Store) -> AsyncIterator[Node]:
    """A broker that is stopped at the end."""
    async with trio.open_nursery() as logs:
        async with trio.open_nursery() as nursery:
            node = Node(store, logs, nursery)
            yield node
            nursery.cancel_scope.cancel()
        await node.replicas.close()
        logs.cancel_scope.cancel()


async def test_a_broker_that_does_not_know_its_topics_yet_takes_none_for_deleted(
    store: Store, sql: psycopg.Connection
) -> None:
    async with living(store) as node:
        node.publish("t", ALONE)
        node.replicas.image_is_current()
        await await_topics(sql, "t")
    append(sql, "t")
    async with living(store) as node:
        node.publish("another", ALONE)  # a part of the metadata log
        await wait_all_tasks_blocked()
        append(sql, "t")
        await wait_all_tasks_blocked()
        assert left(sql) == (2, 0)
        node.publish("t", ALONE)
        node.replicas.image_is_current()
        await await_topics(sql, "another", "t")
        assert await node.end_offset("t", 2) == 2
        assert left(sql) == (0, 0)


@pytest.mark.parametrize("replicas", [(NODE, OTHER), (OTHER,)])
async def test_records_for_a_partition_that_other_brokers_have_wait_until_it_is_here_alone(
    store: Store,
    sql: psycopg.Connection,
    conninfo: str,
    caplog: pytest.LogCaptureFixture,
    replicas: tuple[int, ...],
) -> None:
    async with living(store) as node:
        node.publish("t", ALONE)
        node.publish("another", ALONE)
        node.replicas.image_is_current()
        await await_topics(sql, "another", "t")
        with psycopg.connect(conninfo) as late:
            append(late, "t")
            node.publish("t", PartitionImage(replicas, replicas[:1], replicas[0], 2, 2))
            await await_topics(sql, "another")
            late.commit()
        append(sql, "another")
        assert await node.end_offset("another", 1) == 1
        with pytest.raises(psycopg.errors.UndefinedObject) as refused:
            append(sql, "t")
        assert "as their only replica" in refused.value.diag.message_hint
        assert left(sql) == (1, 0)
        held = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
        assert [IDS["t"].hex in text.replace("-", "") for text in held] == [True]
        node.publish("t", replace(ALONE, leader_epoch=3, partition_epoch=3))
        await await_topics(sql, "another", "t")
        assert await node.end_offset("t", 1) == 1
        assert left(sql) == (0, 0)
