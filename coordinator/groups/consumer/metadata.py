"""The cluster's metadata for a group: the ids of the topics subscribed to, and whether they have changed."""

import hashlib
import struct
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.metadata.image.image import MetadataImage

_COUNT: Final = struct.Struct(">i")
_HASH_BYTES: Final = 8


def metadata_hash(topics: Iterable[str], image: MetadataImage) -> int:
    """Returns a hash of the topics that exist, their ids and their numbers of partitions; 0 when none exists.

    Kafka's hash has another value, but it is used only to detect changes there, too.
    """
    digest, found = hashlib.blake2b(digest_size=_HASH_BYTES), False
    for name in sorted(topics):
        topic = image.topic(name)
        if topic is not None:
            digest.update(topic.topic_id.bytes + _COUNT.pack(len(topic.partitions)) + name.encode() + b"\0")
            found = True
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


def topic_ids(group: ConsumerGroup, member: ConsumerMember, image: MetadataImage) -> frozenset[UUID]:
    """Returns the ids of the existing topics that a member subscribes to."""
    found = (image.topic(name) for name in group.topics_of(member))
    return frozenset(topic.topic_id for topic in found if topic is not None)


def has_new_metadata(table: ConsumerTable, group_id: str) -> bool:
    """True if topics may have changed since this shard last computed the group's hash."""
    return table.seen.get(group_id) is not table.image().topics_by_name


def metadata_changed(table: ConsumerTable, group: ConsumerGroup) -> bool:
    """True if the topics subscribed to have changed since the epoch was last raised. Changes no durable state."""
    if not has_new_metadata(table, group.group_id):
        return False
    image = table.image()
    if metadata_hash(group.subscribed_topics(), image) != group.metadata_hash:
        return True
    table.seen[group.group_id] = image.topics_by_name
    return False


def raise_epoch(table: ConsumerTable, draft: Draft, *, forced: bool) -> None:
    """Raise the group's epoch if `forced`, or if the topics that its members subscribe to have changed."""
    group, image = draft.group, table.image()
    fresh = metadata_hash(group.subscribed_topics(), image)
    if forced or fresh != group.metadata_hash:
        draft.write(records.epoch_record(group.group_id, group.epoch + 1, fresh))
    if group.has_partition_metadata:
        draft.write(records.partition_metadata_tombstone(group.group_id))
    table.seen[group.group_id] = image.topics_by_name
