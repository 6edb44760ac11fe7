"""Transactions request by request: the same sequence to both brokers, the same codes, epochs and effects.

`test_every_version` sends each request by itself; here are sequences: two versions of transaction.version in one id's
life, fencing, time-outs, exhausted epochs, and the content of the state topic.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.comparison import Comparison, differences
from compat_tests.every_version import Stage, Wire, comparable
from compat_tests.every_version_transactions import Transactional, init
from odradek.coordinator.partitioner import partition_for
from odradek.coordinator.transactions.records import decode_id
from odradek.coordinator.transactions.version import FEATURE, HIGHEST
from odradek.wire.api_keys import ApiKey
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.reader import read_records
from odradek.wire.stored.framing import decode_value
from odradek.wire.stored.transaction_records import TransactionLogValue

Scenario = Callable[[Stage], Iterator[Any]]
STATE_PARTITIONS = 50
UPGRADE, DOWNGRADE = 1, 2


def claimed(producer: Transactional, version: int = 5) -> Any:
    """InitProducerId with the producer's current id and epoch (KIP-360)."""
    fields = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    return init(producer.stage, version, producer.id, **fields)


def taken_up(producer: Transactional) -> Any:
    """InitProducerId without id and epoch, by another client."""
    return init(producer.stage, 5, producer.id)


def fenced_by_a_successor(stage: Stage) -> Iterator[Any]:
    """An open transaction of either version; its producer sends requests before and after a successor takes the id."""
    topic = stage.topic()
    for suffix, produce, end in (("-1", 11, 4), ("-2", 12, 5)):
        zombie = Transactional.begin(stage, suffix)
        if produce == 11:
            yield zombie.add(3, topic, 0)
        yield zombie.produce(produce, topic)
        given = taken_up(zombie)
        yield given
        yield zombie.produce(produce, topic, sequence=1)
        yield zombie.end(end, True)
        yield zombie.end(end, False)
        yield claimed(zombie)
        successor = zombie.after(given)
        yield successor.produce(12, topic, partition=1)
        yield successor.end(5, True)
        yield successor.described()
        yield successor.readable(topic)
        yield successor.readable(topic, 1)


def both_versions_in_one_life(stage: Stage) -> Iterator[Any]:
    """A client is upgraded, and downgraded again, with the same id."""
    topic = stage.topic()
    producer = Transactional.begin(stage)
    for turn, (produce, end) in enumerate([(11, 4), (12, 5), (11, 4), (12, 5), (12, 4), (11, 5)]):
        sequence = turn if end == 4 else 0
        if produce == 11:
            yield producer.add(3, topic, 0)
        yield producer.produce(produce, topic, sequence=0)
        yield producer.produce(produce, topic, sequence=1)
        ended = producer.end(end, turn % 2 == 0)
        yield sequence, ended
        yield producer.described()
        given = claimed(producer)
        yield given
        producer = producer.after(given)
        yield claimed(producer.old)
    yield producer.readable(topic)


def too_slow(stage: Stage) -> Iterator[Any]:
    """Aborted by the coordinator: producers of both versions send late requests, and continue as far as allowed."""
    topic = stage.topic()
    for suffix, produce, end in (("-1", 11, 4), ("-2", 12, 5)):
        producer = Transactional.begin(stage, suffix)
        given = init(stage, 5, producer.id, transaction_timeout_ms=300)
        producer = producer.after(given)
        if produce == 11:
            yield producer.add(3, topic, 0)
        yield producer.produce(produce, topic)
        until_aborted(producer)
        yield producer.described()
        yield producer.produce(produce, topic, sequence=1)
        yield producer.end(end, True)
        yield producer.end(end, False)
        yield claimed(producer)
        yield claimed(producer.old)
        yield producer.described()
        yield producer.readable(topic)


def until_aborted(producer: Transactional) -> None:
    request = DescribeTransactionsRequest(transactional_ids=(producer.id,))
    while True:
        (found,) = producer.stage.wire.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states
        if found.transaction_state == "CompleteAbort":
            return


def offsets_in_both_versions(stage: Stage) -> Iterator[Any]:
    """Offsets of a group, with and without AddOffsetsToTxn, pending and decided."""
    topic = stage.topic()
    producer = Transactional.begin(stage)
    for version, end in ((4, 4), (5, 5), (5, 5), (5, 4)):
        if version == 4:
            yield producer.add_offsets(4)
        yield producer.commit_offset(version, topic)
        yield producer.described()
        yield producer.committed(topic)
        ended = producer.end(end, version == 5)
        yield ended
        yield producer.described()
        if end == 5:
            yield producer.commit_offset(version, topic)
            producer = producer.after(ended)
        yield producer.committed(topic)


def what_the_state_topic_holds(stage: Stage) -> Iterator[Any]:
    """Every record of an id's life, field by field except for times, in the version that Kafka writes."""
    topic = stage.topic()
    producer = Transactional.begin(stage)
    yield producer.add(3, topic, 0)
    yield producer.add_offsets(4)
    yield producer.end(4, True)
    yield producer.described()
    for committed in (True, False):
        yield producer.produce(12, topic, sequence=0)
        ended = producer.end(5, committed)
        yield producer.described()
        producer = producer.after(ended)
    ended = producer.end(5, False)
    yield producer.described()
    producer = producer.after(ended)
    yield producer.produce(12, topic)
    producer = producer.after(taken_up(producer))
    yield producer.described()
    yield list(state_records(stage, producer))


def state_records(stage: Stage, producer: Transactional) -> Iterator[Any]:
    """The id's records, with producer ids counted from its first one."""
    for value in values_of(stage, producer.id):
        (version,) = struct.unpack_from(">h", value)
        held = decode_value(TransactionLogValue, value)
        ids = [held.producer_id, held.previous_producer_id, held.next_producer_id]
        partitions = held.transaction_partitions
        yield {
            "version": version,
            "ids": [each if each < 0 else each - producer.producer_id for each in ids],
            "epochs": [held.producer_epoch, held.next_producer_epoch],
            "state": held.transaction_status,
            "timeout": held.transaction_timeout_ms,
            "partitions": None
            if partitions is None
            else sorted([part.topic, *part.partition_ids] for part in partitions),
            "times": [held.transaction_start_timestamp_ms > 0, held.transaction_last_update_timestamp_ms > 0],
            "follows": held.client_transaction_version,
        }


def values_of(stage: Stage, transactional_id: str) -> Iterator[bytes]:
    index, offset = partition_for(transactional_id, STATE_PARTITIONS), 0
    while True:
        part = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = (FetchTopic(topic="__transaction_state", partitions=(part,)),)
        request = FetchRequest(max_wait_ms=10, min_bytes=1, topics=topics)
        (found,) = stage.wire.call(ApiKey.FETCH, 11, request).responses[0].partitions
        records = memoryview(bytes(found.records or b""))
        if not records:
            return
        for header in iter_headers(records):
            offset = header.next_offset
            for record in read_records(records, header):
                if record.value is not None and decode_id(record.key) == transactional_id:
                    yield record.value


SCENARIOS: list[Scenario] = [
    fenced_by_a_successor,
    both_versions_in_one_life,
    too_slow,
    offsets_in_both_versions,
    what_the_state_topic_holds,
]


def observed(bootstrap: str, scenario: Scenario, name: str) -> list[Any]:
    with Wire(bootstrap) as wire:
        return [comparable(answer) for answer in scenario(Stage(wire, name, "1"))]


def compare(comparison: Comparison, scenario: Scenario) -> None:
    name = f"{scenario.__name__.replace('_', '-')}-{secrets.token_hex(3)}"
    ours = observed(comparison.odradek.bootstrap, scenario, name)
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    found = dict(differences(observed(comparison.kafka.bootstrap, scenario, name), ours))
    assert {path: pair for path, pair in found.items() if not path.endswith("error_message")} == {}, "(Kafka's, ours)"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenario(comparison: Comparison, scenario: Scenario) -> None:
    compare(comparison, scenario)


@pytest.fixture(params=[0, 1], ids=lambda level: f"level {level}")
def lowered(comparison: Comparison, request: pytest.FixtureRequest) -> Iterator[None]:
    """Both clusters at a lower transaction.version, which is restored afterwards."""
    sides = [broker.bootstrap for broker in (comparison.odradek, comparison.kafka) if broker is not None]
    try:
        for bootstrap in sides:
            set_level(bootstrap, request.param, DOWNGRADE)
        yield
    finally:
        for bootstrap in sides:
            set_level(bootstrap, HIGHEST, UPGRADE)


def set_level(bootstrap: str, level: int, upgrade_type: int) -> None:
    """Returns when the level is in force: Kafka's coordinator gets it a little later."""
    update = FeatureUpdateKey(feature=FEATURE, max_version_level=level, upgrade_type=upgrade_type)
    known = ApiVersionsRequest(client_software_name="levels", client_software_version="1")
    with Wire(bootstrap) as wire:
        assert wire.call(ApiKey.UPDATE_FEATURES, 2, UpdateFeaturesRequest(feature_updates=(update,))).error_code == 0
        while True:
            finalized = wire.call(ApiKey.API_VERSIONS, 4, known).finalized_features
            if {each.name: each.max_version_level for each in finalized}.get(FEATURE, 0) == level:
                return


def what_the_coordinator_does_by_itself(stage: Stage) -> Iterator[Any]:
    """Fencing, a time-out, and the records of both, for clients that follow the level."""
    topic = stage.topic()
    fenced = Transactional.begin(stage, "-fenced")
    yield fenced.add(3, topic, 0)
    yield fenced.produce(11, topic)
    given = taken_up(fenced)
    yield given
    yield fenced.end(4, True)
    yield claimed(fenced)
    successor = fenced.after(given)
    yield successor.add(3, topic, 0)
    yield successor.end(4, True)
    yield successor.described()
    slow = Transactional.begin(stage, "-slow")
    slow = slow.after(init(stage, 5, slow.id, transaction_timeout_ms=300))
    yield slow.add(3, topic, 0)
    until_aborted(slow)
    yield slow.described()
    yield slow.end(4, False)
    yield claimed(slow)
    yield slow.described()
    yield [list(state_records(stage, each)) for each in (fenced, slow)]


@pytest.mark.usefixtures("lowered")
def test_a_lower_level(comparison: Comparison) -> None:
    """A request's effect depends on its version, the coordinator's own actions on the cluster's level."""
    compare(comparison, what_the_coordinator_does_by_itself)


LAST_EPOCH = 32_766
BURST = 500


def epochs_that_run_out(stage: Stage) -> Iterator[Any]:
    """A producer id is exhausted, and its last transactions end with the next one."""
    topic = stage.topic()
    used_up = exhaust(Transactional.begin(stage), LAST_EPOCH - 1)
    yield used_up.epoch
    yield used_up.produce(12, topic)
    ended = used_up.end(5, True)
    yield ended
    last = used_up.after(ended)
    yield last.produce(12, topic)
    ended = last.end(5, True)
    yield last.described()
    yield last.end(5, True)
    yield last.end(5, False)
    again = last.end(5, True)
    fresh = last.after(again)
    yield fresh.producer_id != last.producer_id, fresh.epoch
    yield last.produce(12, topic)
    yield fresh.produce(12, topic)
    yield fresh.end(5, True)
    yield fresh.described()
    yield last.end(5, True)
    yield fresh.readable(topic)


def exhaust(producer: Transactional, epoch: int) -> Transactional:
    """Increments the id's epoch by InitProducerId, many requests at once on one connection."""
    wire, request = (
        producer.stage.wire,
        InitProducerIdRequest(transactional_id=producer.id, transaction_timeout_ms=60_000),
    )
    frame = encode_request(request, 2, 0, "exhaust")
    given: Any = None
    current = producer.epoch
    while current < epoch:
        burst = min(BURST, epoch - current)
        wire.socket.sendall(frame * burst)
        for _ in range(burst):
            (size,) = struct.unpack(">i", wire.exactly(4))
            _, given = decode_response(ApiKey.INIT_PRODUCER_ID, 2, wire.exactly(size))
            current += given.error_code == 0
    assert given.producer_epoch == epoch
    return producer.after(given)


@pytest.mark.torture
@pytest.mark.skipif(os.environ.get("ODRADEK_LONG_TESTS") != "1", reason="ODRADEK_LONG_TESTS=1 runs it: four minutes")
@pytest.mark.timeout(600)
def test_epochs_that_run_out(comparison: Comparison) -> None:
    compare(comparison, epochs_that_run_out)
