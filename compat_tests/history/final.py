"""The end of a history: end open transactions, and read all records once more."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from compat_tests.history import librdkafka_clients
from compat_tests.history.recorder import Recorder
from compat_tests.history.workers import Target
from odradek.gateway.testing.history.operations import Outcome, Read


def end_open_transactions(target: Target, transactional_ids: Iterable[str]) -> None:
    """End open transactions by taking over their transactional ids."""
    for transactional_id in transactional_ids:
        librdkafka_clients.Transactional(target, transactional_id).close()


def read_everything(target: Target, recorder: Recorder) -> None:
    """Read all records with a new consumer, up to the end of each partition."""
    places = {TopicPartition(topic, partition): OffsetSpec.latest() for topic, partition in target.keys}
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    asked = admin.list_offsets(places, isolation_level=IsolationLevel.READ_COMMITTED)
    ends = {place.partition: future.result(30).offset for place, future in asked.items()}
    began, reader, reads = recorder.now(), librdkafka_clients.Reading(target), list[Read]()
    unread = [partition for partition, end in ends.items() if end > 0]
    while unread:
        reads += [Read(target.key(partition), offset, value) for partition, offset, value in reader.poll()]
        unread = [partition for partition in unread if reader.position(partition) < ends[partition]]
    reader.close()
    recorder.note("last", Outcome.OK, began, reads)
