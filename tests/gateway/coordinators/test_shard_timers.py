"""The timers of shards: a decision that cannot be written, and a defect, concern one group or one shard."""

import logging
import time
from dataclasses import replace

from gateway_brokers import ThreadBroker, internal_errors, logged
from gateway_client import RawClient
from gateway_groups import commit_error, committed, find

from odradek.coordinator.groups.shard import GroupShard
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t"
SESSION_MS = 2000
CONFIG = {
    "group_consumer_min_session_timeout_ms": 1000,
    "group_consumer_session_timeout_ms": SESSION_MS,
    "offsets_topic_num_partitions": 1,
}
LARGE_BYTES = 400_000
"""The metadata of one member; three of them do not fit into a batch."""


def with_user_data(size):
    return SUBSCRIPTION + size.to_bytes(4, "big") + bytes(size)


def enter(client, group, member):
    joined = client.call(
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
    )
    assert joined.error_code == 0, joined


def join_large(client, group):
    """A member of the classic protocol joins."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=with_user_data(LARGE_BYTES)),),
    )
    given = client.call(request)
    answer = client.call(replace(request, member_id=given.member_id))
    assert answer.error_code == 0, answer


def members(client, *groups):
    """The number of members of each group."""
    answer = client.call(ConsumerGroupDescribeRequest(group_ids=groups))
    assert all(group.error_code == 0 for group in answer.groups), answer
    return [len(group.members) for group in answer.groups]


def await_true(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_sessions_end_although_the_decision_about_another_group_is_too_large(caplog):
    with ThreadBroker(**CONFIG) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        for _ in range(3):
            enter(client, "g", "n")
            join_large(client, "g")
        enter(client, "g", "n")
        enter(client, "h", "m")
        await_true(lambda: members(client, "g", "h") == [4, 0], 20)  # g cannot become a classic group
        await_true(lambda: caplog.text.count("batch too large") >= 2, 20)
    assert logged(caplog, logging.ERROR, "coordinator batch too large", "about=g")
    assert caplog.text.count("batch too large") < 10, "a loop without pauses"
    assert internal_errors(caplog.records) == []


def test_a_defect_of_timers_does_not_end_the_broker(caplog, monkeypatch):
    original, calls, defective = GroupShard.on_time, [], [True]

    def on_time(shard, now_ms):
        calls.append(now_ms)
        if defective[0]:
            raise IndexError("planted")
        return original(shard, now_ms)

    with ThreadBroker(**CONFIG) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert find(client, "g") == 0
        enter(client, "g", "n")
        assert commit_error(client, "f", 1) == 0
        monkeypatch.setattr(GroupShard, "on_time", on_time)
        await_true(lambda: len(calls) >= 2, 20)
        await_true(lambda: find(client, "g") == 0, 20)
        defective[0] = False
        await_true(lambda: broker.broker.services.groups.active_shards() != [], 20)
        assert committed(client, "f") == {("t", 0): 1}
        await_true(lambda: members(client, "g") == [0], 20)
    assert len(calls) < 10, "a loop without pauses"
    assert len(internal_errors(caplog.records)) == 1  # the traceback is logged once
    assert logged(caplog, logging.ERROR, "timers of a coordinator shard failed, it is loaded again")
