"""ImportBatches (API 10001): batches of another log through the wire, and their state afterwards."""

from itertools import count

import pytest
from gateway_brokers import ProcessBroker, ThreadBroker
from gateway_client import RawClient, batch_of

from odradek.partitions.imports import MAX_BATCHES
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.import_batches import ImportBatchesRequest, ImportPartition, ImportTopic
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from odradek.wire.records.batch import Codec, iter_headers
from odradek.wire.records.builder import end_transaction_marker

COMMITTED = 1
TIMEOUT_MS = 30_000


def request(topic, *records, partition=0, timeout_ms=TIMEOUT_MS):
    part = ImportPartition(index=partition, records=memoryview(b"".join(records)))
    return ImportBatchesRequest(timeout_ms=timeout_ms, topics=(ImportTopic(name=topic, partitions=(part,)),))


def only(response):
    [topic] = response.topics
    [part] = topic.partitions
    return part


def send(client, topic, *records, **options):
    return only(client.call(request(topic, *records, **options)))


def outcome(result):
    return ErrorCode(result.error_code), result.log_end_offset


def transaction(offset, producer_id, *values, committed, epoch=0):
    """The batch of a transaction and its marker."""
    who = {"producer_id": producer_id, "producer_epoch": epoch}
    batch = batch_of(*values, base_offset=offset, base_sequence=5, transactional=True, **who)
    marker = end_transaction_marker(
        committed=committed, coordinator_epoch=8, timestamp_ms=1, base_offset=offset + len(values), **who
    )
    return batch, marker


def raw(client, topic):
    return bytes(client.fetch(topic, 0, partition_max_bytes=50 << 20).records)


def without_epochs(records):
    """The bytes with the leader epochs zeroed, since the broker sets them."""
    data = bytearray(records)
    for header in iter_headers(records):
        data[header.position + 12 : header.position + 16] = bytes(4)
    return bytes(data)


def test_the_bytes_come_back_as_they_were(client, topic):
    batches = [
        batch_of(b"x" * 100, b"y" * 100, key=b"k", base_offset=10 * number, codec=codec, leader_epoch=9)
        for number, codec in enumerate(Codec)
    ]
    batches += transaction(60, 700, b"t", committed=True)
    assert outcome(send(client, topic, *batches)) == (ErrorCode.NONE, 62)
    stored = raw(client, topic)
    assert without_epochs(stored) == without_epochs(b"".join(batches))
    assert {header.partition_leader_epoch for header in iter_headers(stored)} == {0}


def test_what_is_sent_again_is_refused_with_the_end_to_go_on_from(client, topic):
    first, second = batch_of(b"a", b"b"), batch_of(b"c", base_offset=2)
    assert outcome(send(client, topic, first)) == (ErrorCode.NONE, 2)
    again = send(client, topic, first, second)
    assert outcome(again) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)
    assert again.error_message == "the batches begin at offset 0, and the log ends at 2 already"
    assert outcome(send(client, topic, second)) == (ErrorCode.NONE, 3)
    assert client.values(topic) == [b"a", b"b", b"c"]


def test_imported_and_produced_batches_stand_side_by_side(client, topic):
    client.produce(topic, batch_of(b"ours"))
    assert outcome(send(client, topic, batch_of(b"theirs", base_offset=7))) == (ErrorCode.NONE, 8)
    assert client.produce(topic, batch_of(b"ours again")).base_offset == 8
    assert client.values(topic) == [b"ours", b"theirs", b"ours again"]
    assert client.end_offset(topic) == 9


def test_readers_of_committed_records_see_the_other_cluster_s_transactions(client, topic):
    aborted = transaction(1, 900, b"no", committed=False)
    committed = transaction(3, 901, b"yes", committed=True)
    open_batch, _ = transaction(5, 900, b"undecided", committed=True, epoch=1)
    assert outcome(send(client, topic, batch_of(b"plain"), *aborted, *committed, open_batch)) == (ErrorCode.NONE, 6)
    part = client.fetch(topic, isolation_level=COMMITTED)
    assert (part.high_watermark, part.last_stable_offset) == (6, 5)
    assert [(one.producer_id, one.first_offset) for one in part.aborted_transactions] == [(900, 1)]
    assert [header.base_offset for header in iter_headers(bytes(part.records))] == [0, 1, 2, 3, 4]
    _, marker = transaction(5, 900, b"undecided", committed=True, epoch=1)
    assert outcome(send(client, topic, marker)) == (ErrorCode.NONE, 7)
    assert client.fetch(topic, isolation_level=COMMITTED).last_stable_offset == 7


def test_a_transaction_whose_marker_never_comes_can_be_aborted(client, topic):
    open_batch, _ = transaction(0, 900, b"open", committed=True, epoch=3)
    send(client, topic, open_batch, batch_of(b"plain", base_offset=1))
    where = (WritableTxnMarkerTopic(name=topic, partition_indexes=(0,)),)
    marker = WritableTxnMarker(
        producer_id=900, producer_epoch=3, transaction_result=False, topics=where, coordinator_epoch=0
    )
    client.call(WriteTxnMarkersRequest(markers=(marker,)), 1)
    part = client.fetch(topic, isolation_level=COMMITTED)
    assert (part.last_stable_offset, part.high_watermark) == (3, 3)
    assert [(one.producer_id, one.first_offset) for one in part.aborted_transactions] == [(900, 0)]


def test_gaps_and_transactions_outlive_a_kill(tmp_path):
    kept = [batch_of(b"a", base_offset=5), *transaction(9, 800, b"no", committed=False)]
    open_batch, _ = transaction(40, 801, b"open", committed=True)
    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t", segment_bytes="1048576")
            assert outcome(send(client, "t", *kept, open_batch)) == (ErrorCode.NONE, 41)
            before = raw(client, "t")
        broker.kill()
        broker.start()
        with RawClient(broker.address) as client:
            assert raw(client, "t") == before
            assert client.end_offset("t") == 41
            part = client.fetch("t", isolation_level=COMMITTED)
            assert (part.high_watermark, part.last_stable_offset) == (41, 40)
            assert [one.producer_id for one in part.aborted_transactions] == [800]
            assert outcome(send(client, "t", *kept)) == (ErrorCode.OFFSET_OUT_OF_RANGE, 41)


def test_producer_ids_that_are_given_out_later_are_above_the_imported_ones(tmp_path):
    def given(client):
        return client.call(InitProducerIdRequest(transactional_id=None)).producer_id

    with ProcessBroker(tmp_path / "data") as broker:
        with RawClient(broker.address) as client:
            client.create_topic("t")
            first, offsets = given(client), count()
            for imported in (first + 10, first + 5000, first + 3):
                batch = batch_of(b"v", base_offset=next(offsets), producer_id=imported, base_sequence=0)
                assert outcome(send(client, "t", batch)) == (ErrorCode.NONE, batch[7] + 1)
                assert given(client) > max(imported, first)
            assert given(client) > first + 5000
        broker.kill()
        broker.start()
        with RawClient(broker.address) as client:
            assert given(client) > first + 5000


FAR = [
    batch_of(b"v", producer_id=2**63 - 1, base_sequence=0),
    batch_of(b"v", producer_id=2**48, base_sequence=0),
    batch_of(b"v", base_offset=2**48),
]


@pytest.mark.parametrize("batch", FAR, ids=["largest id", "id", "offset"])
def test_far_offsets_and_ids_need_permission(client, topic, batch):
    """Any client could end a log, or the cluster's producer ids."""
    error, end_offset = outcome(send(client, topic, batch))
    assert (error, end_offset) == (ErrorCode.POLICY_VIOLATION, 0)
    assert client.end_offset(topic) == 0
    assert 0 <= client.call(InitProducerIdRequest(transactional_id=None)).producer_id < 2**48


def test_with_permission_an_id_that_no_block_comes_near_is_not_reserved():
    with ThreadBroker(odradek_import_far_enable="true") as broker, RawClient(broker.address) as client:
        client.create_topic("t", 2)
        assert outcome(send(client, "t", FAR[0])) == (ErrorCode.NONE, 1)
        assert 0 <= client.call(InitProducerIdRequest(transactional_id=None)).producer_id < 2**62
        assert outcome(send(client, "t", batch_of(b"v", base_offset=2**48))) == (ErrorCode.NONE, 2**48 + 1)


def test_a_wrong_checksum_is_refused_and_nothing_written(client, topic):
    damaged = bytearray(batch_of(b"b", base_offset=1))
    damaged[-1] ^= 1
    result = send(client, topic, batch_of(b"a"), bytes(damaged))
    assert outcome(result) == (ErrorCode.CORRUPT_MESSAGE, 0)
    assert client.values(topic) == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__transaction_state", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_topics_that_take_no_import(client, name, error):
    assert outcome(send(client, name, batch_of(b"a"))) == (error, -1)


def test_no_records_are_refused(client, topic):
    part = ImportPartition(index=0, records=None)
    answer = client.call(ImportBatchesRequest(timeout_ms=1, topics=(ImportTopic(name=topic, partitions=(part,)),)))
    assert outcome(only(answer)) == (ErrorCode.INVALID_RECORD, 0)


def test_partitions_are_answered_one_by_one(client):
    client.create_topic("several", partitions=3)
    parts = [ImportPartition(index=index, records=memoryview(batch_of(b"v"))) for index in (2, 5, 0)]
    answer = client.call(ImportBatchesRequest(timeout_ms=1, topics=(ImportTopic(name="several", partitions=parts),)))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(part.index, *outcome(part)) for part in answer.topics[0].partitions] == [
        (2, ErrorCode.NONE, 1),
        (5, unknown, -1),
        (0, ErrorCode.NONE, 1),
    ]


def test_a_long_record_set_is_written_in_parts(client, topic):
    """Longer than what the event loop inspects itself, and with more batches than one write takes."""
    batches = [batch_of(b"v" * 300, base_offset=2 * number) for number in range(2 * MAX_BATCHES + 1)]
    assert outcome(send(client, topic, *batches)) == (ErrorCode.NONE, 4 * MAX_BATCHES + 1)
    assert without_epochs(raw(client, topic)) == without_epochs(b"".join(batches))


def test_the_answer_waits_for_the_commit_and_its_time_ends():
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        send(client, "t", batch_of(b"a"))
        broker.env.hold()
        sent = client.send(request("t", batch_of(b"b", base_offset=1), timeout_ms=1))
        broker.env.await_held()
        assert outcome(only(client.receive(sent))) == (ErrorCode.REQUEST_TIMED_OUT, 2)
        assert client.end_offset("t") == 1
        broker.env.release()
        assert outcome(send(client, "t", batch_of(b"c", base_offset=2))) == (ErrorCode.NONE, 3)
        assert client.values("t") == [b"a", b"b", b"c"]


def test_a_failed_write_is_an_error_and_can_be_retried():
    with ThreadBroker() as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        send(client, "t", batch_of(b"a"))
        broker.env.fail_next_write()
        second = batch_of(b"b", base_offset=1)
        assert outcome(send(client, "t", second)) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert outcome(send(client, "t", second)) == (ErrorCode.NONE, 2)
        assert client.values("t") == [b"a", b"b"]
