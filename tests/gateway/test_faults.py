"""Full and failing disks: KAFKA_STORAGE_ERROR, nothing acknowledged that is not stored, and a log with advice."""

import gc
import logging
import resource
import subprocess
from contextlib import ExitStack

import pytest
from gateway_brokers import ProcessBroker, ThreadBroker, logged
from gateway_client import RawClient, assert_serves, batch_of, fetch_request, only, produce_many, produce_request
from gateway_groups import commit_error, committed, find

from odradek.gateway.errors import StartError
from odradek.gateway.replication.replica import ReplicaState
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_configs import AlterConfigsRequest
from odradek.wire.messages.alter_configs import AlterConfigsResource as LegacyResource
from odradek.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_topics import DeleteTopicsRequest
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
FULL = {"write_full": 1.0}
BROKEN = {"write_error": 1.0, "read_error": 1.0}


@pytest.fixture
def no_collector():
    """Disables the garbage collector, which would traverse the objects of this test process."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def broker(broker_log, no_collector):
    with ThreadBroker() as running:
        yield running
    loop = running.broker.services.loop
    assert loop.long_turns == 0, loop.last_stack


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as connected:
        yield connected


def break_disk(broker, **chances):
    for name, chance in chances.items():
        setattr(broker.env.faults, name, chance)


def mend_disk(broker):
    break_disk(broker, write_full=0, write_error=0, read_error=0)


# Partitions


@pytest.mark.parametrize("chances", [{"write_full": 1.0}, {"write_error": 1.0}, BROKEN], ids=["full", "writes", "all"])
def test_produce_fails_with_kafka_storage_error_and_works_again_when_the_disk_does(broker, client, broker_log, chances):
    client.create_topic("t")
    assert client.produce("t", batch_of(b"before")).base_offset == 0
    break_disk(broker, **chances)
    for _ in range(5):
        failed = client.produce("t", batch_of(b"lost"))
        assert (failed.error_code, failed.base_offset) == (STORAGE_ERROR, -1)
    assert logged(broker_log, logging.ERROR, "commit failed", "t-0", "injected fault")
    mend_disk(broker)
    assert client.produce("t", batch_of(b"after")).base_offset == 1
    assert client.values("t") == [b"before", b"after"]
    assert logged(broker_log, logging.INFO, "partition loaded again", "t-0")


def test_the_first_produce_to_a_new_topic_fails_too(broker, client, broker_log):
    """Becoming leader of a new log begins with a write, which must fail once per request, not repeatedly on its own."""
    client.create_topic("t")
    client.create_topic("u")
    client.fetch("u")
    break_disk(broker, write_full=1.0)
    for name in "tu":
        assert client.produce(name, batch_of(b"lost")).error_code == STORAGE_ERROR
    for _ in range(10):
        assert_serves(broker.address)
    failures = [record for record in broker_log.records if "commit failed" in record.getMessage()]
    assert len(failures) <= 4
    mend_disk(broker)
    for name in "tu":
        assert client.produce(name, batch_of(b"kept")).base_offset == 0
        assert client.values(name) == [b"kept"]


def test_an_exception_that_no_store_should_raise_fails_one_partition_for_a_moment(broker, client, broker_log):
    for name in "tu":
        client.create_topic(name)
        client.produce(name, batch_of(b"before"))
    broker.env.fail_next_write(AssertionError("a defect"))
    assert client.produce("t", batch_of(b"lost")).error_code == STORAGE_ERROR
    [record] = [record for record in broker_log.records if "commit failed" in record.getMessage()]
    assert "unexpected AssertionError: a defect" in record.getMessage()
    assert record.exc_info[0] is AssertionError, "the traceback says where the defect is"
    assert client.produce("u", batch_of(b"served")).error_code == 0
    assert client.produce("t", batch_of(b"after")).error_code == 0
    assert client.values("t") == [b"before", b"after"]


def test_acks_0_on_a_failed_disk_closes_the_connection(broker, client, broker_log):
    client.create_topic("t")
    client.produce("t", batch_of(b"x"))
    break_disk(broker, write_full=1.0)
    client.send(produce_request("t", batch_of(b"lost"), acks=0))
    assert client.is_closed_by_broker()
    assert logged(broker_log, logging.WARNING, client.peer, "KAFKA_STORAGE_ERROR")


def test_what_was_pipelined_behind_a_failed_commit_fails_with_it(broker, client):
    """Offsets are consecutive, so nothing behind a gap may be acknowledged."""
    client.create_topic("t")
    client.produce("t", batch_of(b"first"))
    broker.env.hold()
    sent = [client.send(produce_request("t", batch_of(b"held")))]
    broker.env.await_held()  # it has begun, so the disk fails for the later ones
    sent += [client.send(produce_request("t", batch_of(b"%d" % n))) for n in range(10)]
    assert_serves(broker.address)
    break_disk(broker, write_error=1.0)
    broker.env.release()
    answers = [only(client.receive(one)) for one in sent]
    mend_disk(broker)
    assert [(one.error_code, one.base_offset) for one in answers] == [(0, 1)] + [(STORAGE_ERROR, -1)] * 10
    assert client.values("t") == [b"first", b"held"]
    assert client.produce("t", batch_of(b"next")).base_offset == 2


def test_a_single_failed_commit_fails_those_behind_it_too(broker_log):
    """Each produce is a separate commit here. The disk works again for the later ones, which must fail all the same."""
    with ThreadBroker(odradek_commit_max_bytes=1) as broker, RawClient(broker.address) as client, ExitStack() as stack:
        client.create_topic("t")
        client.produce("t", batch_of(b"first"))
        broker.env.hold()
        held = client.send(produce_request("t", batch_of(b"held")))
        broker.env.await_held()
        others = [stack.enter_context(RawClient(broker.address)) for _ in range(10)]
        sent = [other.send(produce_request("t", batch_of(b"lost"))) for other in others]
        replica = broker.broker.services.replicas.get("t", 0)
        while broker.in_trio(lambda: replica.log.log_end_offset) < 12:
            assert_serves(broker.address)
        broker.env.fail_next_write()
        broker.env.release()
        assert only(client.receive(held)).base_offset == 1
        answers = [only(other.receive(one)) for other, one in zip(others, sent, strict=True)]
        assert [(one.error_code, one.base_offset) for one in answers] == [(STORAGE_ERROR, -1)] * 10
        assert client.produce("t", batch_of(b"next")).base_offset == 2
        assert client.values("t") == [b"first", b"held", b"next"]


def test_a_producers_retry_after_a_failed_disk_is_stored_once(broker, client):
    """A producer's state is rolled back with its batches: the retry is appended, a second one is a duplicate."""
    client.create_topic("t")

    def batch(sequence):
        return batch_of(b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)

    assert client.produce("t", batch(0)).base_offset == 0
    break_disk(broker, write_full=1.0)
    assert client.produce("t", batch(1)).error_code == STORAGE_ERROR
    assert client.produce("t", batch(1)).error_code == STORAGE_ERROR
    mend_disk(broker)
    for _ in range(3):
        assert client.produce("t", batch(1)).base_offset == 1
    assert client.produce("t", batch(2)).base_offset == 2
    assert client.values("t") == [b"0", b"1", b"2"]


def test_a_first_batch_refused_while_writes_fail_comes_before_the_ones_behind_it(broker, client):
    """The log is open and not loaded again; for an unknown producer it would accept any sequence."""
    client.create_topic("t")

    def batch(sequence):
        return batch_of(b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)

    assert client.produce("t", batch_of(b"x")).base_offset == 0
    replica = broker.broker.services.replicas.get("t", 0)
    break_disk(broker, write_full=1.0)
    assert client.produce("t", batch_of(b"y")).error_code == STORAGE_ERROR
    broker.in_trio(lambda: setattr(replica, "takes_writes", lambda: False))
    assert client.values("t") == [b"x"]  # this loads the log
    assert client.produce("t", batch(0)).error_code == STORAGE_ERROR
    mend_disk(broker)
    broker.in_trio(lambda: delattr(replica, "takes_writes"))
    assert client.produce("t", batch(1)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.produce("t", batch(0)).base_offset == 1
    assert client.produce("t", batch(1)).base_offset == 2


def test_one_failing_partition_does_not_fail_the_others_of_a_request(broker, client):
    client.create_topic("t", partitions=3)
    for part in range(3):
        client.produce("t", batch_of(b"x"), part)
    replica = broker.broker.services.replicas.get("t", 1)
    broker.in_trio(lambda: setattr(replica, "state", ReplicaState.FAILED))
    break_disk(broker, read_error=1.0)
    response = client.call(produce_many([("t", part, batch_of(b"y")) for part in range(3)]))
    codes = [topic.partition_responses[0].error_code for topic in response.responses]
    assert codes == [0, STORAGE_ERROR, 0]


def test_reads_fail_with_kafka_storage_error(broker, client, broker_log):
    client.create_topic("t")
    client.produce("t", batch_of(b"x", timestamp_ms=1000))
    break_disk(broker, read_error=1.0)
    assert client.fetch("t").error_code == STORAGE_ERROR
    assert logged(broker_log, logging.ERROR, "cannot read", "t-0", "injected fault")
    part = ListOffsetsPartition(partition_index=0, timestamp=500)
    [listed] = client.call(ListOffsetsRequest(topics=(ListOffsetsTopic(name="t", partitions=(part,)),))).topics
    assert listed.partitions[0].error_code == STORAGE_ERROR
    mend_disk(broker)
    assert client.values("t") == [b"x"]
    assert client.end_offset("t", timestamp=500) == 0


def test_a_log_that_cannot_be_opened_is_offline_until_it_can(broker, client, broker_log):
    client.create_topic("t")
    break_disk(broker, read_error=1.0)
    assert client.produce("t", batch_of(b"x")).error_code == STORAGE_ERROR
    assert client.fetch("t").error_code == STORAGE_ERROR
    asked = OffsetForLeaderTopic(topic="t", partitions=(OffsetForLeaderPartition(partition=0, leader_epoch=0),))
    [epochs] = client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=(asked,))).topics
    assert epochs.partitions[0].error_code == STORAGE_ERROR
    assert logged(broker_log, logging.ERROR, "cannot open", "t-0")
    mend_disk(broker)
    assert client.produce("t", batch_of(b"x")).base_offset == 0


def test_a_waiting_fetch_outlives_a_failed_commit(broker, client):
    client.create_topic("t")
    client.produce("t", batch_of(b"x"))
    with RawClient(broker.address) as waiting:
        fetched = waiting.send(fetch_request("t", [(0, 1)], max_wait_ms=2**31 - 1))
        while not watchers(broker, "t"):
            assert_serves(broker.address)
        break_disk(broker, write_full=1.0)
        assert client.produce("t", batch_of(b"lost")).error_code == STORAGE_ERROR
        mend_disk(broker)
        assert client.produce("t", batch_of(b"kept")).base_offset == 1
        [answered] = waiting.receive(fetched).responses
        assert (answered.partitions[0].error_code, answered.partitions[0].high_watermark) == (0, 2)


def watchers(broker, topic):
    replica = broker.broker.services.replicas.get(topic, 0)
    return broker.in_trio(lambda: len(replica.watchers))


def test_the_high_watermark_never_goes_back(broker, client):
    """Consumers must never see a lower high watermark, whatever fails; Spark fetches repeatedly if they do."""
    client.create_topic("t")
    seen = 0
    for n in range(30):
        break_disk(broker, write_full=1.0 if n % 3 == 1 else 0)
        client.produce("t", batch_of(b"%d" % n))
        part = client.fetch("t", seen)
        assert part.high_watermark >= seen
        seen = part.high_watermark
    mend_disk(broker)
    assert client.values("t") == [b"%d" % n for n in range(30) if n % 3 != 1]


# Metadata


def creatable(name):
    return CreateTopicsRequest(topics=(CreatableTopic(name=name, num_partitions=1, replication_factor=-1),))


def changes(name):
    """Every request that changes metadata, each with a function that gets the error from its answer."""
    config = AlterableConfig(name="retention.ms", config_operation=0, value="1")
    resource_ = AlterConfigsResource(resource_type=2, resource_name=name, configs=(config,))
    legacy = LegacyResource(resource_type=2, resource_name=name)
    more = CreatePartitionsTopic(name=name, count=9, assignments=None)
    return [
        (creatable("new"), lambda response: response.topics[0].error_code),
        (CreatePartitionsRequest(topics=(more,)), lambda response: response.results[0].error_code),
        (IncrementalAlterConfigsRequest(resources=(resource_,)), lambda response: response.responses[0].error_code),
        (AlterConfigsRequest(resources=(legacy,)), lambda response: response.responses[0].error_code),
        (DeleteTopicsRequest(topic_names=(name,)), lambda response: response.responses[0].error_code),
    ]


@pytest.mark.parametrize("index", range(5), ids=[type(request).__name__ for request, _ in changes("x")])
def test_changes_of_metadata_fail_with_kafka_storage_error(broker, client, broker_log, index):
    client.create_topic("t", retention_ms="7")
    break_disk(broker, write_full=1.0)
    request, error_of = changes("t")[index]
    assert error_of(client.call(request)) == STORAGE_ERROR
    assert logged(broker_log, logging.ERROR, "commit failed", "__cluster_metadata", "injected fault")
    [described] = client.call(MetadataRequest(topics=(MetadataRequestTopic(name="t"),))).topics
    assert (described.error_code, len(described.partitions)) == (0, 1)
    mend_disk(broker)
    assert error_of(client.call(request)) == 0


def test_auto_creation_is_tried_again_by_the_client(broker, client):
    break_disk(broker, write_full=1.0)
    asked = MetadataRequest(topics=(MetadataRequestTopic(name="auto"),), allow_auto_topic_creation=True)
    assert client.call(asked).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    mend_disk(broker)
    assert client.call(asked).topics[0].error_code == 0


def test_producer_ids_are_not_given_when_they_cannot_be_noted(broker, client):
    break_disk(broker, write_full=1.0)
    assert (
        client.call(InitProducerIdRequest(transactional_id=None)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    mend_disk(broker)
    assert client.call(InitProducerIdRequest(transactional_id=None)).error_code == 0


def test_metadata_that_cannot_be_read_keeps_the_broker_from_starting(tmp_path, broker_log):
    storage = f"lmdb://{tmp_path}/data"
    with ThreadBroker(storage):
        pass
    with pytest.raises(BaseExceptionGroup) as raised:
        ThreadBroker(storage, BrokenFromTheStart).start()
    assert raised.group_contains(StartError, match="metadata log cannot be read")
    assert logged(broker_log, logging.ERROR, "__cluster_metadata", "injected fault")


def BrokenFromTheStart():  # noqa: N802 - stands where a class does
    from gateway_brokers import FaultyEnvironment

    env = FaultyEnvironment()
    env.faults.read_error = env.faults.write_error = 1.0
    return env


# Groups


def test_a_group_shard_whose_append_failed_is_loaded_again(broker, client, broker_log):
    client.create_topic("t")
    assert find(client, "g") == 0
    assert commit_error(client, "g", 5) == 0
    break_disk(broker, write_full=1.0)
    assert commit_error(client, "g", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert logged(broker_log, logging.ERROR, "coordinator shard discarded", "__consumer_offsets")
    assert committed(client, "g") == {("t", 0): 5}
    mend_disk(broker)
    assert commit_error(client, "g", 7) == 0
    assert committed(client, "g") == {("t", 0): 7}


def test_a_group_shard_that_cannot_be_read_answers_errors_until_it_can(broker, client, broker_log):
    client.create_topic("t")
    assert find(client, "g") == 0
    break_disk(broker, **BROKEN)
    assert commit_error(client, "g", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert commit_error(client, "g", 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    mend_disk(broker)
    assert commit_error(client, "g", 7) == 0
    assert committed(client, "g") == {("t", 0): 7}


def test_no_coordinator_without_the_offsets_topic(broker, client):
    break_disk(broker, write_full=1.0)
    assert find(client, "g") == ErrorCode.COORDINATOR_NOT_AVAILABLE
    mend_disk(broker)
    assert find(client, "g") == 0


def test_an_offsets_topic_that_cannot_be_created_is_an_error(broker_log):
    with ThreadBroker(odradek_partitions_max=5) as broker, RawClient(broker.address) as client:
        assert find(client, "g") == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert logged(broker_log, logging.ERROR, "cannot create topic=__consumer_offsets", "odradek.partitions.max")


# Real disks


def fill(client, name, size=100_000):
    """Produces until the disk is full; returns the number of acknowledged batches."""
    acknowledged = 0
    while True:
        answer = client.produce(name, batch_of(b"%06d" % acknowledged + b"x" * size))
        if answer.error_code:
            assert answer.error_code == STORAGE_ERROR, answer
            return acknowledged
        assert answer.base_offset == acknowledged
        acknowledged += 1
        assert acknowledged < 1000, "the disk is not small"


def check_kept(client, name, acknowledged):
    assert [int(value[:6]) for value in client.values(name)] == list(range(acknowledged))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MB.

    Skips where mounting is not allowed; the test with the file size limit covers that case.
    """
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", directory], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system may be mounted here: {mounted.stderr.decode().strip()}")
    yield directory
    subprocess.run(["umount", "-l", directory], check=True)


def test_a_full_file_system(small_disk, tmp_path):
    filler = small_disk / "filler"
    filler.write_bytes(bytes(3_000_000))
    broker = ProcessBroker(small_disk / "data")
    broker.log_path = tmp_path / "broker.log"
    with broker, RawClient(broker.address) as client:
        client.create_topic("t")
        client.create_topic("u")
        acknowledged = fill(client, "t")
        assert acknowledged > 5
        assert "the file system is full: free space on it" in broker.log()
        check_kept(client, "t", acknowledged)
        assert client.produce("u", batch_of(b"x" * 1_000_000)).error_code == STORAGE_ERROR
        filler.unlink()
        assert client.produce("t", batch_of(b"%06d" % acknowledged)).base_offset == acknowledged
        assert client.produce("u", batch_of(b"u")).error_code == 0
        check_kept(client, "t", acknowledged + 1)
        broker.kill()
        broker.start()
        with RawClient(broker.address) as again:
            check_kept(again, "t", acknowledged + 1)
        assert "Traceback" not in broker.log()


def test_a_file_size_limit(tmp_path):
    """EFBIG instead of ENOSPC, where no file system may be mounted."""
    with ProcessBroker(tmp_path / "data") as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"%06d" % 0))
        broker.limit(resource.RLIMIT_FSIZE, 4_000_000)
        acknowledged = 1
        while (answer := client.produce("t", batch_of(b"%06d" % acknowledged + b"x" * 100_000))).error_code == 0:
            acknowledged += 1
        assert answer.error_code == STORAGE_ERROR
        assert "the file size limit is reached: raise it (ulimit -f)" in broker.log()
        check_kept(client, "t", acknowledged)
        broker.limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
        assert client.produce("t", batch_of(b"%06d" % acknowledged)).base_offset == acknowledged
        check_kept(client, "t", acknowledged + 1)
        assert "Traceback" not in broker.log()
