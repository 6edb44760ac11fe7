"""Fetch, ListOffsets and OffsetForLeaderEpoch: waiting, limits and offsets. Order is asserted, never time."""

from dataclasses import replace

import pytest
from gateway_brokers import ThreadBroker
from gateway_client import RawClient, assert_serves, batch_of, fetch_request, only, produce_request
from gateway_groups import delete_topic

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch import FetchRequest
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch

FOREVER_MS = 2**31 - 1


@pytest.fixture
def waiting(shared_broker):
    """A second client, for requests that wait."""
    with RawClient(shared_broker.address) as connected:
        yield connected


def await_waiting(broker, topic, partition=0):
    """Returns once a fetch waits on the partition."""
    replica = broker.broker.services.replicas.get(topic, partition)
    while not broker.in_trio(lambda: len(replica.watchers)):
        assert_serves(broker.address)


def parts_of(response):
    [topic] = response.responses
    return topic.partitions


def base_offsets(part):
    chunk = memoryview(bytes(part.records or b""))
    return [header.base_offset for header in iter_headers(chunk)]


# Waiting


def test_a_fetch_wakes_when_data_arrives(shared_broker, client, waiting, topic):
    """The fetch would wait for 24 days, so any answer is caused by the produce."""
    fetched = waiting.send(fetch_request(topic, [(0, 0)], max_wait_ms=FOREVER_MS))
    await_waiting(shared_broker, topic)
    client.produce(topic, batch_of(b"news"))
    [part] = parts_of(waiting.receive(fetched))
    assert (part.error_code, part.high_watermark, base_offsets(part)) == (0, 1, [0])


def test_a_fetch_of_many_partitions_wakes_for_any(shared_broker, client, waiting, topic):
    client.create_topic(f"{topic}-wide", 20)
    fetched = waiting.send(fetch_request(f"{topic}-wide", [(n, 0) for n in range(20)], max_wait_ms=FOREVER_MS))
    await_waiting(shared_broker, f"{topic}-wide", 19)
    client.produce(f"{topic}-wide", batch_of(b"news"), 13)
    parts = parts_of(waiting.receive(fetched))
    assert [part.partition_index for part in parts if base_offsets(part)] == [13]
    replicas = [shared_broker.broker.services.replicas.get(f"{topic}-wide", n) for n in range(20)]
    assert shared_broker.in_trio(lambda: sum(len(replica.watchers) for replica in replicas)) == 0


def test_all_waiting_fetches_are_woken(shared_broker, client, topic):
    crowd = [RawClient(shared_broker.address) for _ in range(20)]
    fetched = [one.send(fetch_request(topic, [(0, 0)], max_wait_ms=FOREVER_MS)) for one in crowd]
    replica = shared_broker.broker.services.replicas.get(topic, 0)
    while shared_broker.in_trio(lambda: len(replica.watchers)) < 20:
        assert_serves(shared_broker.address)
    client.produce(topic, batch_of(b"news"))
    for one, sent in zip(crowd, fetched, strict=True):
        assert base_offsets(parts_of(one.receive(sent))[0]) == [0]
        one.close()


def test_a_fetch_waits_for_min_bytes(shared_broker, client, waiting, topic):
    """If the first, small batch had completed the fetch, the second one would not be in the answer."""
    fetched = waiting.send(fetch_request(topic, [(0, 0)], max_wait_ms=FOREVER_MS, min_bytes=2000))
    await_waiting(shared_broker, topic)
    client.produce(topic, batch_of(b"small"))
    client.produce(topic, batch_of(b"x" * 2000))
    [part] = parts_of(waiting.receive(fetched))
    assert base_offsets(part) == [0, 1]


@pytest.mark.parametrize("version", [4, 12])
def test_bytes_that_do_not_fit_count_as_available(client, topic, version):
    """Waiting could not make the answer larger. The fetch would wait for 24 days."""
    for _ in range(3):
        client.produce(topic, batch_of(b"x" * 1000))
    request = fetch_request(topic, [(0, 0)], max_wait_ms=FOREVER_MS, min_bytes=1500, partition_max_bytes=1500)
    [part] = parts_of(client.call(request, version))
    assert (base_offsets(part), part.high_watermark) == ([0], 3)


def test_a_batch_larger_than_what_is_left_of_the_request_counts_as_available(client, topic):
    client.create_topic(f"{topic}-wide", 2)
    for part in range(2):
        client.produce(f"{topic}-wide", batch_of(b"x" * 1000), part)
    asked = fetch_request(f"{topic}-wide", [(0, 0), (1, 0)], max_wait_ms=FOREVER_MS, min_bytes=1500, max_bytes=1500)
    assert [base_offsets(part) for part in parts_of(client.call(asked))] == [[0], []]


def test_a_partition_counts_up_to_its_own_limit_only(shared_broker, client, waiting, topic):
    """As in Kafka: the backlog of one partition is not enough, so the fetch waits for the other's records."""
    client.create_topic(f"{topic}-wide", 2)
    for _ in range(5):
        client.produce(f"{topic}-wide", batch_of(b"x" * 1000))
    fetched = waiting.send(
        fetch_request(
            f"{topic}-wide", [(0, 0), (1, 0)], max_wait_ms=FOREVER_MS, min_bytes=2500, partition_max_bytes=1500
        )
    )
    await_waiting(shared_broker, f"{topic}-wide", 1)
    client.produce(f"{topic}-wide", batch_of(b"x" * 1000), 1)
    assert [base_offsets(part) for part in parts_of(waiting.receive(fetched))] == [[0], [0]]


def test_a_reader_of_an_older_segment_does_not_wait(client, topic):
    """A read ends with its segment, so that waiting could not make the answer larger."""
    client.create_topic(f"{topic}-rolled", segment_bytes=str(1 << 20))
    for _ in range(3):
        client.produce(f"{topic}-rolled", batch_of(b"x" * 600_000))
    asked = fetch_request(f"{topic}-rolled", [(0, 0)], max_wait_ms=FOREVER_MS, min_bytes=20_000_000)
    [part] = parts_of(client.call(asked))
    assert base_offsets(part) == [0]


def test_a_fetch_that_has_waited_long_enough_is_answered_empty(client, topic):
    [part] = parts_of(client.call(fetch_request(topic, [(0, 0)], max_wait_ms=50)))
    assert (part.error_code, part.high_watermark, bytes(part.records)) == (0, 0, b"")


def test_a_fetch_without_partitions_does_not_wait(client):
    assert client.call(FetchRequest(max_wait_ms=FOREVER_MS, min_bytes=1)).responses == ()


def test_a_fetch_with_an_error_does_not_wait(client, topic):
    client.create_topic(f"{topic}-wide", 2)
    good, bad = parts_of(client.call(fetch_request(f"{topic}-wide", [(0, 0), (1, 7)], max_wait_ms=FOREVER_MS)))
    assert (good.error_code, bad.error_code) == (0, ErrorCode.OFFSET_OUT_OF_RANGE)


def test_a_fetch_of_nothing_that_is_there_does_not_wait(client, topic):
    [bad] = parts_of(client.call(fetch_request(topic, [(7, 0)], max_wait_ms=FOREVER_MS)))
    assert bad.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_is_not_there_does_not_hurry_the_others(shared_broker, client, waiting, topic):
    """Otherwise a consumer of a deleted topic and an idle one would fetch in a busy loop."""
    fetched = waiting.send(fetch_request(topic, [(7, 0), (0, 0)], max_wait_ms=FOREVER_MS))
    await_waiting(shared_broker, topic)
    client.produce(topic, batch_of(b"news"))
    good, bad = parts_of(waiting.receive(fetched))
    assert (good.partition_index, base_offsets(good)) == (0, [0])
    assert (bad.partition_index, bad.error_code) == (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_fetch_that_waits_on_a_topic_is_answered_when_it_is_deleted(shared_broker, client, waiting, topic):
    fetched = waiting.send(fetch_request(topic, [(0, 0)], max_wait_ms=FOREVER_MS))
    await_waiting(shared_broker, topic)
    delete_topic(client, topic)
    [part] = parts_of(waiting.receive(fetched))
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_is_not_on_disk_is_not_shown(broker_log):
    """A consumer must not see what a crash could lose."""
    with ThreadBroker() as broker, RawClient(broker.address) as client, RawClient(broker.address) as reader:
        client.create_topic("t")
        client.produce("t", batch_of(b"on disk"))
        assert len(reader.values("t")) == 1
        broker.env.hold()
        sent = client.send(produce_request("t", batch_of(b"on its way")))
        broker.env.await_held()
        plan = broker.in_trio(lambda: broker.broker.services.replicas.get("t", 0).log.high_watermark)
        assert plan == 1
        fetched = reader.send(fetch_request("t", [(0, 1)], max_wait_ms=FOREVER_MS))
        await_waiting(broker, "t")
        broker.env.release()
        assert only(client.receive(sent)).base_offset == 1
        assert base_offsets(parts_of(reader.receive(fetched))[0]) == [1]


def test_the_last_fetched_epoch_of_a_consumer_is_checked(client, topic):
    """As in Kafka, not only a follower's: one that the log does not know is refused."""
    client.produce(topic, batch_of(b"one"))
    asked = fetch_request(topic, [(0, 1)], max_wait_ms=FOREVER_MS)
    [asked_topic] = asked.topics
    [partition] = asked_topic.partitions
    diverged = replace(asked_topic, partitions=(replace(partition, last_fetched_epoch=5),))
    [part] = parts_of(client.call(replace(asked, topics=(diverged,)), 12))
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# Limits


def test_a_first_batch_larger_than_the_limits_is_returned_whole(client, topic):
    """Otherwise a consumer could never continue (KIP-74)."""
    for _ in range(3):
        client.produce(topic, batch_of(b"x" * 3000))
    [part] = parts_of(client.call(fetch_request(topic, [(0, 1)], max_bytes=1, partition_max_bytes=1)))
    assert base_offsets(part)[0] in (0, 1)
    assert len(part.records) >= 3000


def test_max_bytes_holds_across_partitions(client, topic):
    client.create_topic(f"{topic}-wide", 5)
    for part in range(5):
        for _ in range(4):
            client.produce(f"{topic}-wide", batch_of(b"x" * 1000), part)
    asked = [(n, 0) for n in (3, 1, 4, 0, 2)]
    parts = parts_of(client.call(fetch_request(f"{topic}-wide", asked, max_bytes=6000)))
    sizes = [len(part.records) for part in parts]
    assert [part.partition_index for part in parts] == [3, 1, 4, 0, 2]
    assert sizes[0] > 4000  # in the order of the request
    assert sum(sizes) <= 6000
    assert sizes[-1] == 0
    assert all(part.error_code == 0 and part.high_watermark == 4 for part in parts)


def test_only_the_first_partition_may_exceed_the_limit(client, topic):
    client.create_topic(f"{topic}-wide", 3)
    for part in range(3):
        client.produce(f"{topic}-wide", batch_of(b"x" * 3000), part)
    parts = parts_of(client.call(fetch_request(f"{topic}-wide", [(0, 0), (1, 0), (2, 0)], max_bytes=1000)))
    assert [len(part.records) > 0 for part in parts] == [True, False, False]


def test_partition_max_bytes_bounds_each_partition(client, topic):
    for _ in range(10):
        client.produce(topic, batch_of(b"x" * 1000))
    [part] = parts_of(client.call(fetch_request(topic, [(0, 0)], partition_max_bytes=3300)))
    assert 0 < len(part.records) <= 3300


@pytest.mark.parametrize("version", range(4, 13))
def test_trap_02_every_fetch_version_that_clients_use(client, topic, version):
    client.produce(topic, batch_of(b"x"))
    [part] = parts_of(client.call(fetch_request(topic, [(0, 0)]), version))
    assert base_offsets(part) == [0]


@pytest.mark.parametrize("version", range(3, 12))
def test_trap_02_every_produce_version_that_clients_use(client, topic, version):
    assert client.produce(topic, batch_of(b"x"), version=version).base_offset == 0
    assert client.values(topic) == [b"x"]


def test_trap_11_zstd_needs_produce_7(client, topic):
    zstd = batch_of(b"x" * 100, codec=4)
    assert client.produce(topic, zstd, version=6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert client.produce(topic, zstd, version=7).error_code == 0


def test_trap_12_log_append_time_has_a_checksum_of_its_own(client, topic):
    client.create_topic(f"{topic}-stamped", message_timestamp_type="LogAppendTime")
    answer = client.produce(f"{topic}-stamped", batch_of(b"a", b"b", timestamp_ms=5))
    [(header, records)] = client.fetch_all(f"{topic}-stamped")  # this checks the CRC
    assert header.max_timestamp == answer.log_append_time_ms
    assert {record.timestamp_ms for record in records} == {answer.log_append_time_ms}


@pytest.mark.parametrize("codec", range(5))
def test_trap_13_batches_are_stored_as_they_came(client, topic, codec):
    """The broker sets only base offset and leader epoch, which the checksum does not cover."""
    sent = batch_of(b"x" * 1000, b"y" * 1000, codec=codec)
    client.produce(topic, batch_of(b"first"))
    client.produce(topic, sent)
    part = client.fetch(topic, 1)
    stored = bytes(part.records)[-len(sent) :]
    assert stored[8:12] + stored[16:] == sent[8:12] + sent[16:]
    assert int.from_bytes(stored[:8], "big") == 1


def test_trap_14_read_committed_lists_aborted_transactions_and_read_uncommitted_none(client, topic):
    client.produce(topic, batch_of(b"x"))
    assert client.fetch(topic, isolation_level=0).aborted_transactions is None
    assert client.fetch(topic, isolation_level=1).aborted_transactions == ()


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, 0), (0, 0), (1, ErrorCode.UNKNOWN_LEADER_EPOCH), (99, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_trap_16_epochs_are_checked_in_fetch_and_list_offsets(client, topic, epoch, error):
    client.produce(topic, batch_of(b"x"))
    assert client.fetch(topic, current_leader_epoch=epoch).error_code == error
    part = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
    [listed] = client.call(ListOffsetsRequest(topics=(ListOffsetsTopic(name=topic, partitions=(part,)),))).topics
    assert listed.partitions[0].error_code == error
    assert epoch_end(client, topic, 0, epoch).error_code == error


def test_trap_19_nobody_is_throttled_yet(client, topic):
    assert client.call(produce_request(topic, batch_of(b"x"))).throttle_time_ms == 0
    assert client.call(fetch_request(topic, [(0, 0)])).throttle_time_ms == 0


def test_trap_21_keyless_records_to_a_compacted_topic(client, topic):
    client.create_topic(f"{topic}-compacted", cleanup_policy="compact")
    refused = client.produce(f"{topic}-compacted", batch_of(b"x"))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refused.record_errors] == [0]
    assert client.produce(f"{topic}-compacted", batch_of(b"x", key=b"k")).error_code == 0


def test_trap_21_max_message_bytes_is_enforced(client, topic):
    client.create_topic(f"{topic}-small", max_message_bytes="1000")
    assert client.produce(f"{topic}-small", batch_of(b"x" * 1000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert client.produce(f"{topic}-small", batch_of(b"x" * 900)).error_code == 0


# Offsets


def listed(client, topic, timestamp, version=None):
    part = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=(ListOffsetsTopic(name=topic, partitions=(part,)),))
    [found] = client.call(request, version).topics
    [answer] = found.partitions
    return answer.error_code, answer.offset, answer.timestamp


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("storage", ["memory", "lmdb"])
def test_offsets_by_timestamp(tmp_path, broker_log, storage, codec):
    url = "memory://" if storage == "memory" else f"lmdb://{tmp_path}/data"
    with ThreadBroker(url) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert listed(client, "t", 500) == (0, -1, -1)
        for start in (1000, 3000, 2000):
            stamps = (start, start + 100, start + 200)
            assert client.produce("t", batch_with_times(stamps, codec)).error_code == 0
        expected = {
            0: (0, 1000),
            1000: (0, 1000),
            1001: (1, 1100),
            1200: (2, 1200),
            1201: (3, 3000),
            3100: (4, 3100),
            3200: (5, 3200),
            3201: (-1, -1),
        }
        assert {stamp: listed(client, "t", stamp)[1:] for stamp in expected} == expected
        assert listed(client, "t", -1) == (0, 9, -1)
        assert listed(client, "t", -2) == (0, 0, -1)
        assert listed(client, "t", -3) == (0, 5, 3200)


def batch_with_times(stamps, codec):
    return build_batch([SimpleRecord(None, b"x", stamp) for stamp in stamps], codec=codec)


def epoch_end(client, topic, epoch, current=-1):
    part = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    asked = OffsetForLeaderTopic(topic=topic, partitions=(part,))
    [answered] = client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=(asked,))).topics
    return answered.partitions[0]


def test_the_end_of_a_leader_epoch(client, topic):
    assert (epoch_end(client, topic, 0).leader_epoch, epoch_end(client, topic, 0).end_offset) == (0, 0)
    for _ in range(3):
        client.produce(topic, batch_of(b"a", b"b"))
    end = epoch_end(client, topic, 0)
    assert (end.error_code, end.leader_epoch, end.end_offset) == (0, 0, 6)
    unknown = epoch_end(client, topic, 5)
    assert (unknown.error_code, unknown.leader_epoch, unknown.end_offset) == (0, -1, -1)
    assert epoch_end(client, "missing", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
