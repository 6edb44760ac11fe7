"""Records that the broker has to read are read outside the event loop, whatever a batch contains."""

import threading

import pytest
import trio
from gateway_brokers import FaultyEnvironment, ThreadBroker, internal_errors
from gateway_client import RawClient, batch_of, only, produce_many, produce_request

from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.env.side_work import SideWork
from odradek.partitions import offsets, validation
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.records.batch import Codec
from odradek.wire.records.builder import SimpleRecord, build_batch

STAMP = 1_750_000_000_000
TIMEOUT_S = 30


def _batch(count, codec=Codec.NONE, key=b"k"):
    return build_batch([SimpleRecord(key, None, STAMP)] * count, codec=codec)


@pytest.fixture
def looked_into(monkeypatch):
    """The threads that have read records to validate a batch or to find an offset."""
    threads = []
    for module, name in ((validation, "read_summaries"), (offsets, "first_record_at_or_after")):
        real = getattr(module, name)

        def noted(*arguments, _real=real, **named):
            threads.append(threading.current_thread())
            return _real(*arguments, **named)

        monkeypatch.setattr(module, name, noted)
    return threads


@pytest.fixture(scope="module")
def broker():
    with ThreadBroker(odradek_inspect_max_decompressed_bytes=20_000_000, message_max_bytes=5_000_000) as running:
        with RawClient(running.address) as client:
            client.create_topic("compacted", cleanup_policy="compact")
            client.create_topic("plain")
        yield running


@pytest.fixture
def client(broker):
    with RawClient(broker.address) as connected:
        yield connected


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD, Codec.GZIP])
def test_many_small_records_of_a_compacted_topic_do_not_hold_up_the_loop(broker, client, looked_into, codec):
    loop, before = broker.in_trio(threading.current_thread), broker.broker.services.loop.long_turns
    assert client.produce("compacted", _batch(100_000, codec)).error_code == 0
    assert looked_into
    assert loop not in looked_into
    assert broker.broker.services.loop.long_turns == before, broker.broker.services.loop.last_stack


def test_a_few_records_are_looked_into_at_once(broker, client, looked_into):
    assert client.produce("compacted", _batch(5)).error_code == 0
    assert set(looked_into) == {broker.in_trio(threading.current_thread)}


def test_the_records_of_other_topics_are_not_looked_into(client, looked_into):
    assert client.produce("plain", _batch(1000)).error_code == 0
    assert looked_into == []


def test_a_batch_with_a_time_out_of_bounds_is_looked_into_beside_the_loop(broker, client, looked_into):
    batch = build_batch([SimpleRecord(b"k", None, STAMP * 10)] * 5000)
    answer = client.produce("plain", batch)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert len(answer.record_errors) == validation.MAX_NAMED_FAULTS
    assert answer.error_message.startswith("at least 1000 record(s) refused by their timestamps")
    assert broker.in_trio(threading.current_thread) not in looked_into


def test_an_offset_is_looked_for_in_a_long_batch_beside_the_loop(broker, client, looked_into):
    assert client.produce("plain", _batch(50_000, Codec.ZSTD)).error_code == 0
    part = ListOffsetsPartition(partition_index=0, timestamp=STAMP)
    answer = client.call(ListOffsetsRequest(topics=(ListOffsetsTopic(name="plain", partitions=(part,)),)))
    assert answer.topics[0].partitions[0].error_code == 0
    assert looked_into
    assert broker.in_trio(threading.current_thread) not in looked_into


def test_records_that_decompress_to_too_much_are_refused_and_the_setting_is_named(client):
    batch = build_batch([SimpleRecord(b"k", bytes(1_000_000), STAMP)] * 21, codec=Codec.ZSTD)
    answer = client.produce("compacted", batch)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "odradek.inspect.max.decompressed.bytes" in answer.error_message
    assert client.produce("plain", batch).error_code == 0, "nothing is decompressed for a topic that is not compacted"


def test_a_damaged_batch_and_one_without_keys_get_their_errors(client):
    batch = bytearray(_batch(1000, Codec.ZSTD))
    batch[-1] ^= 1
    assert client.produce("compacted", bytes(batch)).error_code == ErrorCode.CORRUPT_MESSAGE
    refused = client.produce("compacted", _batch(1000, Codec.ZSTD, key=None))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert "for want of a key" in refused.error_message


def test_replies_and_offsets_keep_the_order_of_the_requests(client):
    client.create_topic("ordered", cleanup_policy="compact")
    batches = [_batch(20_000, Codec.ZSTD), _batch(1), _batch(10_000), _batch(2)]
    sent = [client.send(produce_request("ordered", batch)) for batch in batches]
    assert [only(client.receive(each)).base_offset for each in sent] == [0, 20_000, 20_001, 30_001]


def test_each_batch_of_a_request_is_judged_by_itself(client):
    """Also when a request names a partition twice."""
    client.create_topic("two", partitions=2, cleanup_policy="compact")
    good, bad = _batch(1000), _batch(1000, key=None)
    answer = client.call(produce_many([("two", 0, good), ("two", 0, bad), ("two", 1, bad), ("two", 1, good)]))
    errors = [part.error_code for topic in answer.responses for part in topic.partition_responses]
    assert errors == [0, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_RECORD, 0]


def test_a_client_that_leaves_meanwhile_leaves_nothing_behind(broker, broker_log):
    for _ in range(5):
        with RawClient(broker.address) as leaving:
            leaving.send(produce_request("compacted", _batch(50_000, Codec.ZSTD)))
    with RawClient(broker.address) as staying:
        assert staying.produce("compacted", _batch(300)).error_code == 0
    assert internal_errors(broker_log.records) == []


async def test_only_so_many_calls_run_at_once():
    env, running, most, gate = ProductionEnvironment(threads=8), 0, 0, threading.Event()
    lock, begun = threading.Lock(), threading.Semaphore(0)

    def call():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        begun.release()
        assert gate.wait(TIMEOUT_S)
        with lock:
            running -= 1

    work = SideWork(env, 2)
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(work.run, call)
        await env.run_blocking(lambda: begun.acquire(timeout=TIMEOUT_S) and begun.acquire(timeout=TIMEOUT_S))
        gate.set()
    assert most == 2


async def test_a_call_that_waits_for_its_turn_is_given_up_when_cancelled():
    env, gate, calls = ProductionEnvironment(threads=8), threading.Event(), []
    work = SideWork(env, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.run, lambda: gate.wait(TIMEOUT_S))
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0):
            await work.run(lambda: calls.append(1))
        gate.set()
    await work.run(lambda: calls.append(2))
    assert calls == [2]


def test_commits_continue_while_all_threads_that_read_records_are_busy(monkeypatch):
    gate, looking, real = threading.Event(), threading.Semaphore(0), validation.read_summaries

    def held(*arguments, **named):
        looking.release()
        assert gate.wait(TIMEOUT_S)
        return real(*arguments, **named)

    with ThreadBroker(env=FaultyEnvironment) as broker, RawClient(broker.address) as client:
        client.create_topic("compacted", cleanup_policy="compact")
        client.create_topic("plain", flush_messages="1")
        monkeypatch.setattr(validation, "read_summaries", held)
        busy = [RawClient(broker.address) for _ in range(20)]
        sent = [each.send(produce_request("compacted", _batch(1000))) for each in busy]
        for _ in range(2):
            assert looking.acquire(timeout=TIMEOUT_S)
        assert client.produce("plain", batch_of(b"x")).error_code == 0
        gate.set()
        assert [only(each.receive(one)).error_code for each, one in zip(busy, sent, strict=True)] == [0] * 20
        for each in busy:
            each.close()
