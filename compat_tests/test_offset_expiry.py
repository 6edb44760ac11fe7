"""Which committed offsets expire, and which groups are then deleted (KIP-211), as with Kafka.

Commits of version 2 to 4 have their own retention, so that nothing here takes a minute. The check interval is a broker
setting, so this test has its own pair of brokers.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from compat_tests.brokers import SETTINGS, Broker, Odradek
from compat_tests.comparison import is_missing
from compat_tests.every_version import Stage, Wire
from compat_tests.every_version_transactions import Transactional
from compat_tests.real_kafka import start_real_kafka
from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch import OffsetFetchRequest
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

AT_ONCE_MS, BY_DEFAULT = 1, -1
WAIT_LIMIT_S = 60.0
EXTRA = {"offsets.retention.check.interval.ms": "300"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[list[Broker]]:
    """A Kafka and an Odradek that check for expired offsets continuously."""
    if is_missing("Java"):
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    running: list[Broker] = []
    with pytest.MonkeyPatch.context() as patch:
        for key, value in EXTRA.items():
            patch.setitem(SETTINGS, key, value)
        try:
            running.append(start_real_kafka())
            running.append(Odradek())
            yield running
        finally:
            for broker in running:
                broker.stop()


class Groups:
    """Groups of one broker, all of one stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.topics = (stage.topic("-read"), stage.topic("-unread"))

    def commit(self, group: str, retention_ms: int, member: Any = None) -> None:
        """Commits partition 0 of both topics; as a member, or as a consumer without a group."""
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1 if member is None else member.generation_id,
            member_id="" if member is None else member.member_id,
            retention_time_ms=retention_ms,
            topics=tuple(OffsetCommitRequestTopic(name=name, partitions=(part,)) for name in self.topics),
        )
        answered = self.stage.wire.call(ApiKey.OFFSET_COMMIT, 4, request).topics
        assert all(part.error_code == 0 for topic in answered for part in topic.partitions), answered

    def offsets(self, group: str) -> dict[str, int]:
        """The committed offsets, by the end of the topic's name."""
        answer = self.stage.wire.call(ApiKey.OFFSET_FETCH, 5, OffsetFetchRequest(group_id=group, topics=None))
        return {
            topic.name.rpartition("-")[2]: part.committed_offset for topic in answer.topics for part in topic.partitions
        }

    def state(self, group: str) -> str:
        answer = self.stage.wire.call(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=(group,)))
        return answer.groups[0].group_state

    def commit_in_transaction(self, group: str, producer: Transactional) -> None:
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=8, committed_metadata="")
        request = TxnOffsetCommitRequest(
            **producer.claim(),
            group_id=group,
            topics=(TxnOffsetCommitRequestTopic(name=self.topics[0], partitions=(part,)),),
        )
        answered = self.stage.wire.call(ApiKey.TXN_OFFSET_COMMIT, 3, request).topics[0].partitions[0]
        assert answered.error_code == 0, answered


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"gave up waiting for {what}"
        time.sleep(0.05)


def live(broker: Broker) -> dict[str, Any]:
    """Every way to expire, and offsets that must not. Each wait is for one that does expire."""
    with Wire(broker.bootstrap) as wire:
        stage = Stage(wire, f"expiry-{secrets.token_hex(3)}", "1")
        stage.coordinator()
        groups = Groups(stage)
        found: dict[str, Any] = {}
        lasting, simple, held = (f"{stage.name}-{name}" for name in ("lasting", "simple", "held"))

        groups.commit(lasting, BY_DEFAULT)
        groups.commit(simple, AT_ONCE_MS)
        until(lambda: groups.state(simple) == "Dead", "the group of a simple consumer to go")
        found["simple"] = groups.offsets(simple)

        member = _joined(stage, groups.topics[0])
        groups.commit(stage.group, AT_ONCE_MS, member)
        until(lambda: len(groups.offsets(stage.group)) < len(groups.topics), "the offset that no member reads to go")
        found["while a member reads"] = [groups.state(stage.group), groups.offsets(stage.group)]
        left = wire.call(ApiKey.LEAVE_GROUP, 2, LeaveGroupRequest(group_id=stage.group, member_id=member.member_id))
        assert left.error_code == 0, left
        until(lambda: groups.state(stage.group) == "Dead", "the group to go after its member")
        found["after it left"] = groups.offsets(stage.group)

        producer = Transactional.begin(stage)._replace(stage=_of_group(stage, held))
        assert producer.add_offsets(3).error_code == 0
        groups.commit_in_transaction(held, producer)
        groups.commit(held, AT_ONCE_MS)
        until(lambda: len(groups.offsets(held)) == 1, "the offset beside the transaction to go")
        found["in a transaction"] = groups.offsets(held)
        assert producer.end(3, committed=False).error_code == 0
        until(lambda: groups.state(held) == "Dead", "the group to go after the transaction")

        found["lasting"] = [groups.state(lasting), groups.offsets(lasting)]
        return found


def _joined(stage: Stage, topic: str) -> Any:
    """A member that reads one topic, with its assignment."""
    reading = Stage(stage.wire, topic, stage.node_id)  # its members subscribe to the topic of the same name
    reading.group = stage.group
    member = reading.joined()
    assert reading.sync(5, member).error_code == 0
    return member


def _of_group(stage: Stage, group: str) -> Stage:
    other = Stage(stage.wire, stage.name, stage.node_id)
    other.group = group
    return other


@pytest.mark.timeout(300)
def test_the_same_offsets_and_groups_go(brokers: list[Broker]) -> None:
    with ThreadPoolExecutor(len(brokers)) as pool:
        kafkas, ours = pool.map(live, brokers)
    assert kafkas == ours
    assert ours["lasting"] == ["Empty", {"read": 7, "unread": 7}]
    assert ours["while a member reads"] == ["Stable", {"read": 7}]
