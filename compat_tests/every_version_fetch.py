"""Fetch in every version that Odradek advertises: alone, and from version 7 on in a session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from compat_tests.every_version import Stage, script
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic


@script(ApiKey.FETCH)
def _fetch(stage: Stage, version: int) -> Iterator[Any]:
    topic = stage.filled()
    for partition, offset in ((0, 0), (0, 3), (0, 99), (1, 0)):
        part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        for isolation in (0, 1):
            yield stage.wire.call(
                ApiKey.FETCH,
                version,
                FetchRequest(
                    max_wait_ms=10,
                    min_bytes=1,
                    isolation_level=isolation,
                    topics=(FetchTopic(topic=topic, topic_id=stage.id_of(topic), partitions=(part,)),),
                ),
            )
    if version >= 7:
        yield from _fetch_in_a_session(stage, version, topic)


def _fetch_in_a_session(stage: Stage, version: int, topic: str) -> Iterator[Any]:
    """A session that is created with an existing and a missing partition, used, used incorrectly, and closed."""

    def fetch(session_id: int, epoch: int, *wanted: tuple[str, int]) -> Any:
        part = FetchPartition(partition=0, partition_max_bytes=1 << 20)
        topics = [
            FetchTopic(topic=name, topic_id=stage.id_of(name), partitions=(replace(part, fetch_offset=offset),))
            for name, offset in wanted
        ]
        session = {"session_id": session_id, "session_epoch": epoch}
        return stage.wire.call(
            ApiKey.FETCH, version, FetchRequest(max_wait_ms=10, min_bytes=1, topics=tuple(topics), **session)
        )

    begun = fetch(0, 0, (topic, 0), ("not-there", 0))
    assert begun.session_id > 0
    yield begun
    yield fetch(begun.session_id, 1, (topic, 3))
    stage.produce(topic, 9)
    yield fetch(begun.session_id, 2)
    yield fetch(begun.session_id, 2)
    yield fetch(begun.session_id, -1, (topic, 3)).responses
    yield fetch(begun.session_id, 3)
