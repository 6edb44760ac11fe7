"""A replica that leads or follows as assigned, and logs that the metadata does not have."""

import random
from itertools import pairwise
from uuid import UUID

import pytest
import trio
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, batch_of, only, produce_request
from gateway_groups import commit_error, committed, find
from gateway_transactions import Transactional, Transactional2
from role_fakes import (
    NODE,
    OTHER,
    TOPIC_ID,
    HeldUp,
    Inline,
    faulty_replicas,
    publish,
    replicas_over,
    sent,
    with_partitions,
)
from trio.testing import wait_all_tasks_blocked

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import PartitionImage
from odradek.gateway.env.deadlines import Deadlines
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.signals import Mark, Signal, Ticker
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.assignment import NO_LEADER, Assignment
from odradek.gateway.replication.commit import Backlog
from odradek.gateway.replication.fetcher import FetcherSettings, ReplicaFetcher
from odradek.gateway.replication.replica import LogResources, ReplicaState
from odradek.gateway.replication.replicas import LOOKED_UP_AT_ONCE, Replicas
from odradek.partitions.config import LogConfig
from odradek.partitions.model import LogWrite, PartitionKey
from odradek.partitions.results import Appended, AppendOrigin, EpochEnd, Isolation, Rejected
from odradek.storage_backends.faulty import FaultPlan, FaultyStore
from odradek.storage_backends.interface import LogPolicy, StoreError
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.memory.medium import MemoryMedium
from odradek.storage_backends.testing.batches import make_batch
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.wire.messages.describe_producers import DescribeProducersRequest
from odradek.wire.messages.describe_producers import TopicRequest as DescribeProducersTopic
from odradek.wire.messages.fetch import FetchRequest, FetchResponse
from odradek.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def replica_of(broker, topic):
    return broker.broker.services.replicas.get(topic, 0)


def assign(broker, topic, epoch, leader):
    replica = replica_of(broker, topic)
    broker.in_trio(lambda: replica.assign(Assignment(epoch, leader, leads=leader == NODE)))


@pytest.fixture
def broker():
    with ThreadBroker(offsets_topic_num_partitions=1) as broker:
        yield broker


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"first"))
        yield client


def test_a_follower_refuses_clients_until_it_leads_again(broker, client):
    assign(broker, "t", 5, OTHER)
    assert client.produce("t", batch_of(b"refused")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert client.fetch("t").error_code == ErrorCode.NONE, "consumers may read from followers (KIP-392)"
    assert client.fetch("t", current_leader_epoch=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert client.fetch("t", current_leader_epoch=6).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assign(broker, "t", 6, NODE)
    assert client.produce("t", batch_of(b"second")).base_offset == 1
    assert [header.partition_leader_epoch for header, _ in client.fetch_all("t")] == [0, 6]


@pytest.mark.parametrize("kind", [Transactional, Transactional2])
def test_a_follower_refuses_transactional_producers(broker, client, kind):
    """Before the coordinator is involved, so that the producer learns of the new leader and keeps its connection."""
    producer = kind(client, "x")
    producer.add("t", 0)
    assign(broker, "t", 5, OTHER)
    assert producer.write("t", b"refused") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assign(broker, "t", 6, NODE)
    assert producer.write("t", b"taken") == ErrorCode.NONE


def list_offsets():
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(wanted,)),))


def end_of_epoch():
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return OffsetForLeaderEpochRequest(replica_id=-2, topics=(OffsetForLeaderTopic(topic="t", partitions=(wanted,)),))


def delete_records():
    wanted = DeleteRecordsPartition(partition_index=0, offset=1)
    return DeleteRecordsRequest(topics=(DeleteRecordsTopic(name="t", partitions=(wanted,)),), timeout_ms=1000)


def describe_producers():
    return DescribeProducersRequest(topics=(DescribeProducersTopic(name="t", partition_indexes=(0,)),))


def error_of(client, request):
    response = client.call(request)
    [topic] = response.responses if hasattr(response, "responses") else response.topics
    [partition] = topic.partitions
    return partition.error_code


@pytest.mark.parametrize("request_of", [list_offsets, end_of_epoch, delete_records])
def test_every_api_of_leaders_refuses_what_another_broker_leads(broker, client, request_of):
    assert error_of(client, request_of()) == ErrorCode.NONE
    assign(broker, "t", 5, OTHER)
    assert error_of(client, request_of()) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_describes_its_producers(broker, client):
    """As in Kafka, where a tool can query each replica (KIP-664)."""
    assign(broker, "t", 5, OTHER)
    assert error_of(client, describe_producers()) == ErrorCode.NONE


@pytest.mark.parametrize("leader", [NODE, OTHER])
def test_a_log_neither_leads_nor_follows_while_the_metadata_are_older_than_it(broker, client, leader):
    """After a start a node has the image of its newest snapshot until it has replayed the log."""
    assign(broker, "t", 6, NODE)
    assert client.produce("t", batch_of(b"second")).base_offset == 1
    assign(broker, "t", 5, leader)
    assert client.produce("t", batch_of(b"refused")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    role = broker.in_trio(lambda: replica_of(broker, "t").role)
    assert (role.leads, role.leader_id, role.state.leader_epoch) == (False, NO_LEADER, 6)
    assign(broker, "t", 6, NODE)
    assert client.produce("t", batch_of(b"third")).base_offset == 2


def test_an_assignment_of_the_same_epoch_changes_nothing(broker, client):
    role = broker.in_trio(lambda: replica_of(broker, "t").role)
    assign(broker, "t", role.state.leader_epoch, OTHER)
    assert broker.in_trio(lambda: replica_of(broker, "t").role) is role


def test_requests_that_wait_for_a_commit_get_an_error_when_another_broker_leads(broker, client):
    broker.env.hold()
    held = client.send(produce_request("t", batch_of(b"held")))
    broker.env.await_held()
    assign(broker, "t", 5, OTHER)
    assert only(client.receive(held)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.env.release()


def test_a_shard_that_was_loaded_in_an_earlier_epoch_writes_no_more(broker, client):
    assert find(client, "g") == 0
    assert commit_error(client, "g", 3) == 0
    assign(broker, "__consumer_offsets", 1, NODE)
    errors = [ErrorCode(commit_error(client, "g", offset)).name for offset in (4, 5)]
    assert errors == ["NOT_COORDINATOR", "NONE"], "it is loaded again, by the log"
    assert committed(client, "g") == {("t", 0): 5}


# Assignments by the image


class Leader:
    """A leader that answers no fetch: `requests` are those that it has received."""

    def __init__(self) -> None:
        self.requests: list[FetchRequest] = []

    async def fetch(self, request: FetchRequest, _timeout_ms: int) -> FetchResponse:
        self.requests.append(request)
        await trio.sleep_forever()
        raise AssertionError

    async def list_offsets(self, _request: ListOffsetsRequest, _timeout_ms: int) -> ListOffsetsResponse:
        raise AssertionError

    def close(self) -> None:
        pass


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(MemoryMedium())


@pytest.fixture
def replicas(store: MemoryStore, nursery: trio.Nursery) -> Replicas:
    env = Inline()
    return replicas_over(store, nursery, env)


async def test_nothing_is_set_aside_before_the_image_is_current(replicas: Replicas, store: MemoryStore) -> None:
    log = store.open(PartitionKey("late", UUID(int=3), 0), LogPolicy())
    log.commit([LogWrite([make_batch(0)])], sync=True)
    log.close()
    publish(replicas, MetadataDelta())
    await wait_all_tasks_blocked()
    assert store.strays() == []
    replicas.image_is_current()
    await wait_all_tasks_blocked()
    assert [each.key.topic for each in store.strays()] == ["late"]


LED = PartitionImage((1, 2), (1, 2), NODE, 0, 0)


class Clocked(Inline):
    """The time is that of `now_ms`."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


class FailingDisk:
    """Replicas of one partition whose store fails on request."""

    def __init__(self, nursery: trio.Nursery, partition: PartitionImage) -> None:
        self.env = Clocked()
        self.replicas, self.plan = faulty_replicas(nursery, self.env)
        self.delta = publish(self.replicas, with_partitions(partition))
        self.replicas.image_is_current()

    def assign(self, partition: PartitionImage) -> None:
        self.delta.topics.set_partition(TOPIC_ID, 0, partition)
        self.delta = publish(self.replicas, self.delta)

    async def write(self, at_ms: int, *, fails: bool) -> None:
        self.env.now_ms, self.plan.mix.write_error = at_ms, float(fails)
        replica = await self.replicas.leader("t", 0)
        result = replica.append(memoryview(batch_of(b"v")), AppendOrigin.CLIENT)
        assert isinstance(result, Appended)
        if fails:
            with pytest.raises(StoreError):
                await replica.durable(result.last_offset + 1).wait()
        else:
            await replica.durable(result.last_offset + 1).wait()

    def lost(self) -> list[int]:
        return [key.index for key in self.replicas.lost_for(4_000)]


@pytest.mark.parametrize(
    ("partition", "is_lost"),
    [(LED, True), (PartitionImage((1, 2), (1,), NODE, 0, 0), False)],
    ids=["others-are-in-sync", "alone-in-sync"],
)
async def test_what_cannot_be_written_is_lost_where_others_could_lead(
    nursery: trio.Nursery, partition: PartitionImage, is_lost: bool
) -> None:
    disk = FailingDisk(nursery, partition)
    for at_ms in (0, 1_000, 2_000):
        await disk.write(at_ms, fails=True)
        assert disk.lost() == []
    disk.replicas.resources.unwritable_ms[PartitionKey("gone", UUID(int=9), 0)] = 0, 9_000
    await disk.write(4_000, fails=True)
    assert disk.lost() == ([0] if is_lost else [])
    assert [key.topic for key in disk.replicas.resources.unwritable_ms] == ["t"]


async def test_a_failure_that_nobody_repeats_loses_no_partition(nursery: trio.Nursery) -> None:
    disk = FailingDisk(nursery, LED)
    await disk.write(0, fails=True)
    disk.env.now_ms = 60_000
    assert disk.lost() == []


async def test_a_success_begins_the_time_again(nursery: trio.Nursery) -> None:
    disk = FailingDisk(nursery, LED)
    await disk.write(0, fails=True)
    await disk.write(2_000, fails=False)
    await disk.write(5_000, fails=True)
    assert disk.lost() == []
    await disk.write(9_000, fails=True)
    assert disk.lost() == [0]


async def test_a_log_that_cannot_be_opened_after_a_failed_write_counts_as_one_that_cannot_be_written(
    nursery: trio.Nursery,
) -> None:
    disk = FailingDisk(nursery, LED)
    await disk.write(0, fails=True)
    disk.env.now_ms, disk.plan.mix.read_error = 4_000, 1.0
    with pytest.raises(PartitionUnavailable):
        await disk.replicas.leader("t", 0)
    assert disk.lost() == [0]


@pytest.mark.parametrize(
    "elsewhere",
    [PartitionImage((1, 2), (1, 2), OTHER, 1, 1), PartitionImage((2,), (2,), OTHER, 1, 1)],
    ids=["another-leads", "moved"],
)
async def test_a_new_leadership_begins_the_time_again(nursery: trio.Nursery, elsewhere: PartitionImage) -> None:
    disk = FailingDisk(nursery, LED)
    await disk.write(0, fails=True)
    disk.assign(elsewhere)
    await wait_all_tasks_blocked()
    disk.assign(PartitionImage((1, 2), (1, 2), NODE, 2, 2))
    await disk.write(5_000, fails=True)
    assert disk.lost() == []
    await disk.write(9_000, fails=True)
    assert disk.lost() == [0]


async def test_fetches_are_woken_by_records_that_are_found_when_a_failed_log_is_opened_again(
    nursery: trio.Nursery,
) -> None:
    replicas, plan = faulty_replicas(nursery)
    publish(replicas, with_partitions(PartitionImage((1,), (1,), NODE, 0, 0)))
    replica = await replicas.leader("t", 0)
    plan.mix.write_late = 1.0
    replica.append(memoryview(batch_of(b"written")), AppendOrigin.CLIENT)
    with pytest.raises(StoreError):
        await replica.durable(1).wait()
    woken: set[int] = set()
    for number, watched in enumerate((replica, replica.tail)):
        watched.watch(Mark(Signal(), woken, number))
    await replica.ensure_open()
    assert replica.log.high_watermark == 1
    assert woken == {0, 1}


async def test_the_log_of_a_moved_partition_that_cannot_be_deleted_is_kept_until_it_can(
    store: MemoryStore, nursery: trio.Nursery
) -> None:
    env, plan = Inline(), FaultPlan(random.Random(1))
    faulty = FaultyStore(store, plan)
    replicas = replicas_over(faulty, nursery, env)
    mine = PartitionImage((1, 2), (1, 2), NODE, 0, 0)
    delta = publish(replicas, with_partitions(mine, mine))
    replicas.image_is_current()
    for index in range(2):
        await replicas.find("t", index).ensure_open()
    kept = PartitionKey("t", TOPIC_ID, 0)
    for index, error_rate in ((0, 1.0), (1, 0.0)):
        assert kept in store.partitions()
        assert store.strays() == []
        plan.mix.write_error = error_rate
        delta.topics.set_partition(TOPIC_ID, index, PartitionImage((2,), (2,), OTHER, 1, 1))
        delta = publish(replicas, delta)
        await wait_all_tasks_blocked()
    assert (store.partitions(), store.strays()) == ([], [])


async def test_other_tasks_run_while_very_many_logs_are_looked_up(
    replicas: Replicas, store: MemoryStore, nursery: trio.Nursery
) -> None:
    count = 4 * LOOKED_UP_AT_ONCE + 1
    publish(replicas, with_partitions(*[PartitionImage((NODE,), (NODE,), NODE, 0, 0)] * count))
    for index in range(count):
        log = store.open(PartitionKey("t", TOPIC_ID, index), LogPolicy())
        log.commit([LogWrite([make_batch(0)])], sync=True)
        log.close()
    looked_up = [0]

    async def watch() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            looked_up.append(sum(replicas.used("t", index) is not None for index in range(count)))

    nursery.start_soon(watch)
    found = await replicas.all_stored()
    assert sorted(each.key.index for each in found) == list(range(count))
    # tasks that are due in the same turn run in any order
    assert max(after - before for before, after in pairwise([*looked_up, count])) <= 2 * LOOKED_UP_AT_ONCE


async def test_a_broker_hosts_what_it_has_a_replica_of_and_leads_what_it_is_assigned(replicas: Replicas) -> None:
    mine, followed = PartitionImage((1, 2), (1, 2), NODE, 3, 0), PartitionImage((2, 1), (2, 1), OTHER, 4, 0)
    delta = publish(replicas, with_partitions(mine, followed, PartitionImage((2,), (2,), OTHER, 0, 0)))
    leader, follower = replicas.find("t", 0), replicas.find("t", 1)
    await leader.ensure_open()
    await follower.ensure_open()
    assert (leader.leader.state.leader_epoch, follower.role.leads) == (3, False)
    for index, error in ((2, ErrorCode.NOT_LEADER_OR_FOLLOWER), (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        with pytest.raises(PartitionUnavailable) as refused:
            replicas.find("t", index)
        assert refused.value.error is error
    delta.topics.set_partition(TOPIC_ID, 1, PartitionImage((2, 1), (1,), NODE, 5, 1))
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((2,), (2,), OTHER, 4, 1))
    publish(replicas, delta)
    assert follower.leader.state.leader_epoch == 5
    assert replicas.get("t", 0) is None
    with pytest.raises(PartitionUnavailable):
        leader.role.fetch(0, max_bytes=1, isolation=Isolation.READ_UNCOMMITTED)


async def test_a_broker_leads_only_from_images_with_its_registration(store: MemoryStore, nursery: trio.Nursery) -> None:
    env, registered = Inline(), {"now": False}
    resources = LogResources(store, env, Ticker(nursery), Deadlines(env, nursery), Backlog(1000), 1000, Repeats())
    replicas = Replicas(resources, NODE, lambda _image, _topic: LogConfig(), leads_in=lambda _image: registered["now"])
    mine = PartitionImage((1, 2), (1, 2), NODE, 3, 0)
    delta = publish(replicas, with_partitions(mine, mine, PartitionImage((2, 1), (2, 1), OTHER, 4, 0)))
    replica, other = replicas.find("t", 0), replicas.find("t", 2)
    for each in (replica, other):
        await each.ensure_open()
    assert [replica.role.leads, other.role.leads] == [False, False]
    with pytest.raises(PartitionUnavailable):
        replica.append(memoryview(batch_of(b"one")), AppendOrigin.COORDINATOR, leader_epoch=3)
    delta.topics.set_partition(TOPIC_ID, 1, PartitionImage((1, 2), (1, 2), NODE, 4, 1))
    delta = publish(replicas, delta)
    late = replicas.find("t", 1)
    await late.ensure_open()
    assert not late.role.leads
    registered["now"] = True
    for index in range(2):
        delta.topics.set_partition(TOPIC_ID, index, PartitionImage((1, 2), (2,), OTHER, 5, 2))
    delta = publish(replicas, delta)
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((1, 2), (1, 2), NODE, 6, 3))
    publish(replicas, delta)
    assert [each.role.leads for each in (replica, late, other)] == [True, False, False]
    assert not isinstance(replica.append(memoryview(batch_of(b"one")), AppendOrigin.CLIENT), Rejected)


async def test_a_leader_with_in_sync_followers_commits_nothing_by_itself(replicas: Replicas) -> None:
    publish(replicas, with_partitions(PartitionImage((1, 2), (1, 2), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    result = replica.append(memoryview(batch_of(b"one")), AppendOrigin.CLIENT)
    assert not isinstance(result, Rejected)
    durable, all_in_sync = replica.durable(1), replica.committed(1)
    await durable.wait()
    assert (replica.log.durable_end_offset, replica.log.high_watermark, all_in_sync.settled) == (1, 0, False)


@pytest.mark.parametrize(
    ("is_deleted", "error"), [(True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
async def test_waits_for_a_commit_fail_when_the_topic_is_deleted_or_the_partition_moves(
    replicas: Replicas, is_deleted: bool, error: ErrorCode
) -> None:
    delta = publish(replicas, with_partitions(PartitionImage((1, 2), (1, 2), NODE, 0, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    replica.append(memoryview(batch_of(b"one")), AppendOrigin.CLIENT)
    durable, in_all = replica.durable(1), replica.committed(1)
    if is_deleted:
        delta.topics.delete(TOPIC_ID)
    else:
        delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((2,), (2,), OTHER, 1, 1))
    publish(replicas, delta)
    with pytest.raises(PartitionUnavailable) as failed:
        await in_all.wait()
    assert failed.value.error is error
    await durable.wait()


async def test_looking_for_a_replica_from_another_thread_makes_none(replicas: Replicas) -> None:
    publish(replicas, with_partitions(PartitionImage((2, 1), (2, 1), OTHER, 4, 0)))
    assert replicas.used("t", 0) is None
    found = replicas.find("t", 0)
    assert replicas.used("t", 0) is found


async def test_a_follower_is_truncated_and_restarted_only_at_its_own_position(replicas: Replicas) -> None:
    publish(replicas, with_partitions(PartitionImage((2, 1), (2, 1), OTHER, 4, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    assert replica.follower is not None
    start = replica.follower.position
    appended = replica.take_fetched(start, sent(make_batch(0), make_batch(1), make_batch(2)))
    assert not isinstance(appended, Rejected)
    assert appended is not None
    await appended.wait()
    assert replica.take_fetched(start, sent(make_batch(0))) is None, "an answer to an earlier position"
    assert not await replica.truncate(start, EpochEnd(-1, 1))
    position = replica.follower.position
    assert await replica.truncate(position, EpochEnd(-1, 1))
    assert (replica.log.log_end_offset, replica.log.durable_end_offset) == (1, 1)
    assert not await replica.restart_at(position, 50)
    assert await replica.restart_at(replica.follower.position, 50)
    assert (replica.log.log_start_offset, replica.log.high_watermark, replica.log.log_end_offset) == (50, 50, 50)
    appended = replica.take_fetched(replica.follower.position, sent(make_batch(50)))
    assert not isinstance(appended, Rejected)
    assert appended is not None
    await appended.wait()
    replica.leader_reports(4, 51, 51)
    assert (replica.log.log_start_offset, replica.log.high_watermark) == (51, 51)


async def test_a_follower_of_a_new_leader_fetches_once_what_it_has_of_the_last_one_is_durable(
    store: MemoryStore, nursery: trio.Nursery
) -> None:
    env, leader = HeldUp(), Leader()
    replicas = replicas_over(store, nursery, env)
    delta = publish(replicas, with_partitions(PartitionImage((2, 3, 1), (2, 3, 1), OTHER, 4, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    await wait_all_tasks_blocked()
    assert replica.follower is not None
    replica.take_fetched(replica.follower.position, sent(make_batch(0)))
    delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((2, 3, 1), (3, 1), 3, 5, 1))
    publish(replicas, delta)
    fetcher = ReplicaFetcher(NODE, 3, leader, env, FetcherSettings, lambda: 1, Repeats())
    fetcher.add(replica)
    nursery.start_soon(fetcher.run)
    await wait_all_tasks_blocked()
    assert (replica.log.log_end_offset, replica.log.durable_end_offset) == (1, 0)
    assert leader.requests == []
    env.go.set()
    while not leader.requests:
        await trio.lowlevel.checkpoint()
    assert (leader.requests[0].topics[0].partitions[0].fetch_offset, replica.log.durable_end_offset) == (1, 1)


async def test_a_role_that_is_assigned_during_a_cut_is_taken_after_it(replicas: Replicas) -> None:
    delta = publish(replicas, with_partitions(PartitionImage((2, 1), (2, 1), OTHER, 4, 0)))
    replica = replicas.find("t", 0)
    await replica.ensure_open()
    assert replica.follower is not None
    appended = replica.take_fetched(replica.follower.position, sent(make_batch(0), make_batch(1)))
    assert not isinstance(appended, Rejected)
    assert appended is not None
    await appended.wait()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replica.truncate, replica.follower.position, EpochEnd(-1, 1))
        while replica.state is ReplicaState.OPEN:
            await trio.lowlevel.checkpoint()
        assert replica.state is ReplicaState.REWRITING
        delta.topics.set_partition(TOPIC_ID, 0, PartitionImage((2, 1), (1,), NODE, 5, 1))
        publish(replicas, delta)
        with pytest.raises(PartitionUnavailable):
            _ = replica.role
    assert replica.leader.state.leader_epoch == 5
    assert (replica.leader.epoch_start_offset, replica.log.high_watermark) == (1, 1)
