"""A transactional producer built on raw requests, and the results for readers."""

from gateway_client import RawClient, batch_of

from odradek.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.end_txn import EndTxnRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


class Transactional:
    """A producer with a transactional id, one request at a time; it follows transaction.version 1."""

    PRODUCE, END_TXN, TXN_OFFSET_COMMIT = 11, 4, 4

    def __init__(self, client: RawClient, name: str, timeout_ms: int = 60_000):
        self.client, self.name, self.sequences = client, name, {}
        client.call(FindCoordinatorRequest(coordinator_keys=(name,), key_type=1))
        client.call(FindCoordinatorRequest(coordinator_keys=("g",)))
        given = client.call(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms))
        assert given.error_code == 0, given
        self.pid, self.epoch = given.producer_id, given.producer_epoch

    @property
    def claim(self):
        return {"transactional_id": self.name, "producer_id": self.pid, "producer_epoch": self.epoch}

    def add(self, topic, *partitions):
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.pid,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=partitions),),
        )
        [answered] = self.client.call(request, 3).results_by_topic_v3_and_below
        return {one.partition_error_code for one in answered.results_by_partition}

    def batch(self, value, sequence):
        return batch_of(
            value, producer_id=self.pid, producer_epoch=self.epoch, base_sequence=sequence, transactional=True
        )

    def write(self, topic, value, partition=0):
        sequence = self.sequences.get((topic, partition), 0)
        parts = (PartitionProduceData(index=partition, records=memoryview(self.batch(value, sequence))),)
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=(TopicProduceData(name=topic, partition_data=parts),),
        )
        error = self.client.call(request, self.PRODUCE).responses[0].partition_responses[0].error_code
        if not error:
            self.sequences[topic, partition] = sequence + 1
        return error

    def add_offsets(self, group="g"):
        return self.client.call(AddOffsetsToTxnRequest(**self.claim, group_id=group)).error_code

    def commit_offset(self, topic, offset, group="g"):
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = (TxnOffsetCommitRequestTopic(name=topic, partitions=(part,)),)
        request = TxnOffsetCommitRequest(**self.claim, group_id=group, topics=topics)
        return self.client.call(request, self.TXN_OFFSET_COMMIT).topics[0].partitions[0].error_code

    def send_end(self, committed):
        return self.client.call(EndTxnRequest(**self.claim, committed=committed), self.END_TXN)

    def end(self, committed):
        error = self.send_end(committed).error_code
        self.settle()
        return error

    def settle(self):
        """Returns once no markers are left to write; each request also gives the broker's tasks a turn."""
        while self.state().startswith("Prepare"):
            pass

    def state(self):
        [found] = self.client.call(DescribeTransactionsRequest(transactional_ids=(self.name,))).transaction_states
        return found.transaction_state


class Transactional2(Transactional):
    """A producer of transaction.version 2: it adds no partitions, and uses the epoch that each EndTxn returns."""

    PRODUCE, END_TXN, TXN_OFFSET_COMMIT = 12, 5, 5

    def end(self, committed):
        answer = self.send_end(committed)
        if not answer.error_code:
            self.pid, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        self.settle()
        return answer.error_code


def offset_request(topic, group="g"):
    """An OffsetFetch of a topic's first partition under require_stable."""
    named = (OffsetFetchRequestTopics(name=topic, partition_indexes=(0,)),)
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=named),), require_stable=True)


def committed_offset(client, topic, group="g"):
    """(error, offset) under require_stable."""
    part = client.call(offset_request(topic, group)).groups[0].topics[0].partitions[0]
    return part.error_code, part.committed_offset


def stable_and_aborted(client, topic, partition=0):
    part = client.fetch(topic, 0, partition, isolation_level=1)
    return part.last_stable_offset, [one.first_offset for one in part.aborted_transactions]


def settled(client, topic, partition=0):
    """The committed values of a partition without open transactions. A marker may be there twice after a crash."""
    part = client.fetch(topic, 0, partition, isolation_level=1)
    assert (part.last_stable_offset, part.aborted_transactions) == (part.high_watermark, ())
    return [
        record.value
        for header, batch in client.fetch_all(topic, partition)
        if not header.is_control
        for record in batch
    ]
