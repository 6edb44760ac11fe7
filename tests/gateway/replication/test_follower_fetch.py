"""A leader's answers to its followers' fetches, and the effect of these fetches on clients."""

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of, only, produce_request

from odradek.gateway.replication.assignment import Assignment
from odradek.partitions.in_sync import Membership
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from odradek.wire.records.batch import iter_headers

NODE, FOLLOWER = 1, 2
EPOCH = 5


@pytest.fixture
def broker():
    with ThreadBroker(offsets_topic_num_partitions=1) as broker:
        yield broker


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"before"))
        yield client


def lead(broker, isr=(NODE, FOLLOWER), epoch=EPOCH, partition_epoch=1):
    replica = broker.broker.services.replicas.get("t", 0)
    membership = Membership(NODE, (NODE, FOLLOWER), isr, partition_epoch)
    broker.in_trio(lambda: replica.assign(Assignment(epoch, NODE, leads=True, membership=membership)))
    return replica


def follow(client, topic_id, offset, *, last=0, epoch=EPOCH, replica_id=FOLLOWER, max_wait_ms=0):
    part = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last,
        log_start_offset=0,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica_id, replica_epoch=1),
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=(FetchTopic(topic_id=topic_id, partitions=(part,)),),
    )


def answer(client, *args, **more):
    response = client.call(follow(client, *args, **more), 17)
    return response.responses[0].partitions[0]


def test_a_follower_reads_what_is_not_committed_and_its_next_fetch_commits_it(broker, client):
    replica = lead(broker)
    waiting = client.send(produce_request("t", batch_of(b"second")))
    with RawClient(broker.address) as other:
        got = answer(other, replica.key.topic_id, 1, max_wait_ms=5000)
        assert [header.base_offset for header in iter_headers(memoryview(bytes(got.records)))] == [1]
        assert got.high_watermark == 1
        assert answer(other, replica.key.topic_id, 2, last=EPOCH).high_watermark == 2
        assert only(client.receive(waiting)).error_code == ErrorCode.NONE
        assert other.values("t") == [b"before", b"second"]


def test_a_diverged_follower_gets_the_diverging_epoch_and_commits_nothing(broker, client):
    replica = lead(broker)
    lead(broker, epoch=EPOCH + 2, partition_epoch=2)
    got = answer(client, replica.key.topic_id, 3, last=EPOCH + 1, epoch=EPOCH + 2)
    assert (got.error_code, got.diverging_epoch.epoch, got.diverging_epoch.end_offset) == (0, 0, 1)
    assert broker.in_trio(lambda: replica.log.high_watermark) == 1
    assert not broker.in_trio(lambda: replica.leader.in_sync.remotes[FOLLOWER].has_fetched)


@pytest.mark.parametrize(
    ("replica_id", "epoch", "error"),
    [
        (9, EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (FOLLOWER, EPOCH - 1, ErrorCode.FENCED_LEADER_EPOCH),
        (FOLLOWER, EPOCH + 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_fetch_that_is_not_of_a_follower_of_this_epoch_is_refused(broker, client, replica_id, epoch, error):
    replica = lead(broker)
    assert answer(client, replica.key.topic_id, 1, replica_id=replica_id, epoch=epoch).error_code == error


def test_acks_all_is_refused_while_too_few_are_in_sync(broker, client):
    client.create_topic("two", min_insync_replicas="2")
    replica = broker.broker.services.replicas.get("two", 0)
    assert client.produce("two", batch_of(b"alone")).error_code == ErrorCode.NONE, "one replica is all there are"
    membership = Membership(NODE, (NODE, FOLLOWER), (NODE,), 1)
    broker.in_trio(lambda: replica.assign(Assignment(EPOCH, NODE, leads=True, membership=membership)))
    assert client.produce("two", batch_of(b"refused")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert client.produce("two", batch_of(b"taken"), acks=1).error_code == ErrorCode.NONE
    assert client.values("two") == [b"alone"], "and not committed before there are enough again"


def test_produces_that_wait_for_followers_do_not_keep_the_broker_from_reading_the_followers_fetches():
    """They filled `queued.max.request.bytes`; then nothing was read, and the follower was fenced."""
    with (
        ThreadBroker(queued_max_request_bytes=200_000, socket_request_max_bytes=200_000) as broker,
        RawClient(broker.address) as follower,
    ):
        follower.create_topic("t")
        follower.produce("t", batch_of(b"before"))
        replica = lead(broker)
        producers = [RawClient(broker.address) for _ in range(4)]
        waiting = [each.send(produce_request("t", batch_of(b"x" * 150_000))) for each in producers]
        while broker.in_trio(lambda: replica.log.durable_end_offset) < 5:
            pass
        answer(follower, replica.key.topic_id, 5, last=EPOCH)
        for producer, sent in zip(producers, waiting, strict=True):
            assert only(producer.receive(sent)).error_code == ErrorCode.NONE
            producer.close()


def test_a_consumer_in_a_session_is_directed_to_a_follower_although_nothing_has_changed(broker, client, monkeypatch):
    replica = lead(broker, isr=(NODE,))
    topic = FetchTopic(topic_id=replica.key.topic_id, partitions=(FetchPartition(partition=0, fetch_offset=1),))
    begun = client.call(FetchRequest(topics=(topic,), session_epoch=0, rack_id="near"), 17)
    monkeypatch.setattr(broker.broker.services.replicas, "selects_by_rack", True)
    monkeypatch.setattr(replica, "preferred_replica", lambda rack, offset: FOLLOWER)
    for epoch in (1, 2):
        later = FetchRequest(session_id=begun.session_id, session_epoch=epoch, rack_id="near")
        assert client.call(later, 17).responses[0].partitions[0].preferred_read_replica == FOLLOWER
