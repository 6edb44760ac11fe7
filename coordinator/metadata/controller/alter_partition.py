"""AlterPartition: a leader changes the ISR of its partition (KIP-497, with the checks of KIP-841 and KIP-903).

A proposal is accepted only from the leader of the current epoch, for the current state of the partition, and if its
members are neither fenced nor shutting down, nor have registered again since the broker epochs in the proposal. The
change may complete a reassignment, which may give the partition another leader; the response is then
NEW_LEADER_ELECTED.
"""

from collections.abc import Sequence
from typing import Final

from odradek.coordinator.metadata.controller.broker_changes import may_lead_now
from odradek.coordinator.metadata.controller.partition_change import Election, Wanted, change_partition
from odradek.coordinator.metadata.controller.replication_settings import replication_settings
from odradek.coordinator.metadata.image.image import (
    RECOVERED,
    RECOVERING,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from odradek.coordinator.metadata.image.replay import changed_partition
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from odradek.wire.schema.schema import Message

ANY_EPOCH: Final = -1
"""The broker epoch of a member that is not checked, as in requests below version 3, which have none."""


def alter_partition(
    context: DecisionContext, request: AlterPartitionRequest
) -> tuple[list[Message], AlterPartitionResponse]:
    """Decide on each partition independently; a stale broker epoch refuses them all."""
    broker = context.image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        return [], AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    records: list[Message] = []
    topics = tuple(
        AlterPartitionResponseTopicData(topic_id=asked.topic_id, partitions=_decide(context, broker.id, asked, records))
        for asked in request.topics
    )
    return records, AlterPartitionResponse(topics=topics)


def _decide(
    context: DecisionContext, leader: int, asked: AlterPartitionRequestTopicData, records: list[Message]
) -> tuple[AlterPartitionResponsePartitionData, ...]:
    topic = context.image.topic_by_id(asked.topic_id)
    if topic is None:
        return tuple(_refused(proposal, ErrorCode.UNKNOWN_TOPIC_ID) for proposal in asked.partitions)
    return tuple(_altered(context, leader, topic, proposal, records) for proposal in asked.partitions)


def _refused(proposal: AlterPartitionRequestPartitionData, error: ErrorCode) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(partition_index=proposal.partition_index, error_code=error)


def _altered(
    context: DecisionContext,
    leader: int,
    topic: TopicImage,
    proposal: AlterPartitionRequestPartitionData,
    records: list[Message],
) -> AlterPartitionResponsePartitionData:
    index = proposal.partition_index
    if not 0 <= index < len(topic.partitions):
        return _refused(proposal, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    before, members = topic.partitions[index], _members(proposal)
    error = _error_of(context.image, leader, before, proposal, members)
    if error is not ErrorCode.NONE:
        return _refused(proposal, error)
    settings = replication_settings(context, topic.name)
    wanted = Wanted(
        isr=[member.broker_id for member in members],
        recovery=proposal.leader_recovery_state,
        election=Election.UNCLEAN if settings.unclean_election else Election.ONLINE,
    )
    may_lead = may_lead_now(context.image)
    record = change_partition(before, topic.topic_id, index, wanted, min_insync=settings.min_insync, may_lead=may_lead)
    if record is None:
        return _answer(index, before)
    records.append(record)
    after = changed_partition(before, record)
    if after.leader != leader:
        return _refused(proposal, ErrorCode.NEW_LEADER_ELECTED)
    return _answer(index, after)


def _members(proposal: AlterPartitionRequestPartitionData) -> Sequence[BrokerState]:
    if proposal.new_isr_with_epochs:
        return proposal.new_isr_with_epochs
    return [BrokerState(broker_id=broker, broker_epoch=ANY_EPOCH) for broker in proposal.new_isr]


def _error_of(
    image: MetadataImage,
    leader: int,
    before: PartitionImage,
    proposal: AlterPartitionRequestPartitionData,
    members: Sequence[BrokerState],
) -> ErrorCode:
    """Returns the reason to refuse the proposal, in the order of Kafka's checks."""
    stale = _epoch_error(leader, before, proposal)
    if stale is not ErrorCode.NONE:
        return stale
    if not _is_valid_isr(before, proposal, [member.broker_id for member in members]):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, member) for member in members):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _epoch_error(leader: int, before: PartitionImage, proposal: AlterPartitionRequestPartitionData) -> ErrorCode:
    """Returns the error for a proposal with other epochs than the partition's; newer ones are of another controller."""
    if proposal.leader_epoch > before.leader_epoch or proposal.partition_epoch > before.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < before.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != before.leader:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.INVALID_UPDATE_VERSION if proposal.partition_epoch < before.partition_epoch else ErrorCode.NONE


def _is_valid_isr(before: PartitionImage, proposal: AlterPartitionRequestPartitionData, isr: Sequence[int]) -> bool:
    """True for replicas of the partition, each once, including the leader, which must be alone while recovering.

    False for an unknown recovery state, and for a leader that has recovered and would be recovering again.
    """
    recovery = proposal.leader_recovery_state
    if recovery not in (RECOVERED, RECOVERING) or (
        recovery == RECOVERING and before.leader_recovery_state == RECOVERED
    ):
        return False
    if recovery == RECOVERING and len(isr) > 1:
        return False
    return len(set(isr)) == len(isr) and set(isr) <= set(before.replicas) and before.leader in isr


def _is_eligible(image: MetadataImage, member: BrokerState) -> bool:
    broker = image.brokers.get(member.broker_id)
    return broker is not None and broker.is_active and member.broker_epoch in (ANY_EPOCH, broker.epoch)


def _answer(index: int, partition: PartitionImage) -> AlterPartitionResponsePartitionData:
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )
