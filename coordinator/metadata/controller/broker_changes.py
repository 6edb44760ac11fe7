"""Effects of a change of one broker's state on partitions: their ISRs, ELRs and leaders.

Each function returns at most `MAX_CHANGES` changes of partitions, so that no turn of the event loop takes long, and
whether these are all. The next call continues with the remaining partitions, on the state that includes all changes of
the meantime. The broker's own record comes with the last changes when it is fenced, unregistered or registered again,
and with the first ones when it is unfenced or begins a shutdown.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from odradek.coordinator.metadata.controller.partition_change import Election, MayLead, Wanted, change_partition
from odradek.coordinator.metadata.controller.replication_settings import ReplicationSettings, replication_settings
from odradek.coordinator.metadata.image.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage, TopicImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.schema.schema import Message
from odradek.wire.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from odradek.wire.values import immutable

MAX_CHANGES: Final = 1000
"""The maximum number of partitions that one operation changes, as Kafka's MAX_ELECTIONS_PER_IMBALANCE."""
FENCE: Final = 1
UNFENCE: Final = -1


@immutable
class BrokerChange:
    """The records of a change, or of a part of it if it is not `complete`."""

    records: list[Message]
    complete: bool


def may_lead_now(image: MetadataImage) -> MayLead:
    """Returns a predicate that is True for brokers that are neither fenced nor shutting down."""
    active = {broker.id for broker in image.brokers.values() if broker.is_active}
    return active.__contains__


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    """True if the broker leads a partition."""
    return any(part.leader == broker_id for topic in image.topics_by_id.values() for part in topic.partitions)


def fence(context: DecisionContext, broker: BrokerImage) -> BrokerChange:
    """Remove the broker from all ISRs, and fence it.

    It stays in ELRs, and is added to the ELR of each partition whose ISR becomes smaller than `min.insync.replicas`.
    """
    record = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE)
    return _ended(_without(context, broker.id, lost=False), record)


def begin_shutdown(context: DecisionContext, broker: BrokerImage) -> BrokerChange:
    """Begin a controlled shutdown: the broker gets no new partitions, and leaves its ISRs and leaderships.

    The record of the broker itself comes first: the broker keeps serving until other brokers lead its partitions.
    """
    begun: list[Message] = []
    if not broker.in_controlled_shutdown:
        begun.append(
            BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1)
        )
    moved = _without(context, broker.id, lost=False)
    return BrokerChange([*begun, *moved.records], moved.complete)


def unregister(context: DecisionContext, broker: BrokerImage) -> BrokerChange:
    """Remove the broker from all ISRs and ELRs, then its registration."""
    record = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    return _ended(_without(context, broker.id, lost=True), record)


def replace_incarnation(context: DecisionContext, broker_id: int, *, is_clean: bool) -> BrokerChange:
    """Remove the old incarnation of a restarted broker from the ISRs and, after an unclean shutdown, from the ELRs."""
    return _without(context, broker_id, lost=not is_clean)


def unfence(context: DecisionContext, broker: BrokerImage) -> BrokerChange:
    """Unfence the broker, and elect leaders of leaderless partitions if possible now.

    `elect_leaderless` elects the remaining ones, once the broker is unfenced.
    """
    record = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE)
    active = may_lead_now(context.image)
    elected = elect_leaderless(context, may_lead=lambda each: each == broker.id or active(each))
    return BrokerChange([record, *elected.records], elected.complete)


def elect_leaderless(
    context: DecisionContext, *, may_lead: MayLead | None = None, only_unclean: bool = False
) -> BrokerChange:
    """Elect leaders of leaderless partitions, cleanly if possible, else uncleanly if allowed.

    `only_unclean` skips topics that do not allow unclean elections.
    """

    def wanted(partition: PartitionImage, settings: ReplicationSettings) -> Wanted | None:
        if partition.leader != NO_LEADER or (only_unclean and not settings.unclean_election):
            return None
        return Wanted(election=_election(settings))

    return limited(changed_partitions(context, wanted, may_lead or may_lead_now(context.image)))


def _without(context: DecisionContext, broker_id: int, *, lost: bool) -> BrokerChange:
    """Remove the broker from the ISRs, and from the ELRs if it may have `lost` records; others become leaders."""

    def wanted(partition: PartitionImage, settings: ReplicationSettings) -> Wanted | None:
        if broker_id not in partition.isr and not (lost and broker_id in partition.elr):
            return None
        left = [each for each in partition.isr if each != broker_id]
        return Wanted(isr=left, lost=(broker_id,) if lost else (), election=_election(settings))

    active = may_lead_now(context.image)
    return limited(changed_partitions(context, wanted, lambda each: each != broker_id and active(each)))


def _election(settings: ReplicationSettings) -> Election:
    return Election.UNCLEAN if settings.unclean_election else Election.ONLINE


def _ended(change: BrokerChange, record: Message) -> BrokerChange:
    return BrokerChange([*change.records, record], complete=True) if change.complete else change


def changed_partitions(
    context: DecisionContext,
    wanted: Callable[[PartitionImage, ReplicationSettings], Wanted | None],
    may_lead: MayLead,
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes of all partitions for which `wanted` returns a state that differs from the current one."""
    for topic in context.image.topics_by_id.values():
        settings = replication_settings(context, topic.name)
        for index, partition in enumerate(topic.partitions):
            want = wanted(partition, settings)
            record = None if want is None else _changed(topic, index, want, settings, may_lead)
            if record is not None:
                yield record


def _changed(
    topic: TopicImage, index: int, wanted: Wanted, settings: ReplicationSettings, may_lead: MayLead
) -> PartitionChangeRecord | None:
    return change_partition(
        topic.partitions[index],
        topic.topic_id,
        index,
        wanted,
        min_insync=settings.min_insync,
        may_lead=may_lead,
    )


def limited(changes: Iterator[PartitionChangeRecord]) -> BrokerChange:
    """Returns as many of the changes as one operation may make."""
    records: list[Message] = list(islice(changes, MAX_CHANGES))
    return BrokerChange(records, complete=next(changes, None) is None)
