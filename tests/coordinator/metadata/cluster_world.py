"""One controller's shard, with brokers that are only requests to it; used by scripts and random runs."""

from functools import partial
from uuid import UUID

from metadata_shards import uuids

from odradek.coordinator.contract import ShardRecord, Token
from odradek.coordinator.metadata.controller.alter_configs import incremental_alter_configs
from odradek.coordinator.metadata.controller.alter_partition import alter_partition
from odradek.coordinator.metadata.controller.broker_heartbeat import broker_heartbeat
from odradek.coordinator.metadata.controller.broker_registration import broker_registration
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.controller.elect_leaders import elect_leaders
from odradek.coordinator.metadata.controller.reassignments import alter_partition_reassignments
from odradek.coordinator.metadata.controller.shard import MetadataShard
from odradek.coordinator.metadata.controller.unregister_broker import unregister_broker
from odradek.coordinator.metadata.image.image import SUPPORTED_FEATURES
from odradek.coordinator.metadata.settings import MetadataConfig
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest

CLUSTER_ID = "a-cluster"
CONTROLLER = 3000
SESSION_MS = 9000
FEATURES = tuple(
    Feature(name=name, min_supported_version=low, max_supported_version=high)
    for name, (low, high) in SUPPORTED_FEATURES.items()
)
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


class ClusterWorld:
    """A controller under virtual time, its log, and the requests of brokers and clients."""

    def __init__(self, static=None):
        self.config = MetadataConfig(CONTROLLER, static or {})
        self.uuids = uuids()
        self.now_ms = 0
        self.epoch = 1
        self.log: list[tuple[ShardRecord, int]] = []
        self.shard = self.rebuilt()
        self.shard.on_loaded(self.now_ms)

    @property
    def image(self):
        return self.shard.image

    def rebuilt(self):
        """A shard rebuilt from the log."""
        shard = MetadataShard(self.config, self.uuids)
        for offset, (record, epoch) in enumerate(self.log):
            shard.replay(ShardRecord(record.key, record.value), offset, epoch, self.now_ms)
        return shard

    def fail_over(self):
        """Replaces the controller by another one that has the log only."""
        self.epoch += 1
        self.shard = self.rebuilt()
        self.apply(self.shard.on_loaded(self.now_ms))

    def apply(self, outcome):
        for offset, record in enumerate(outcome.records, len(self.log)):
            self.shard.replay(record, offset, self.epoch, self.now_ms)
            self.log.append((record, self.epoch))
        return outcome.records

    def run(self, operation, request):
        """Runs one request and returns the response."""
        outcome = self.shard.decide(operation, request, len(self.log), Token(1), self.now_ms)
        self.apply(outcome)
        return outcome.replies[0].value

    def advance(self, duration_ms):
        """Lets time pass; yields after each operation that the controller starts by itself."""
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            for outcome in self.shard.on_time(self.now_ms):
                yield self.apply(outcome)
        self.now_ms = end_ms

    # Brokers

    def register(self, broker, incarnation, *, previous=-1, rack=None, cluster_id=CLUSTER_ID, features=FEATURES):
        request = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id=cluster_id,
            incarnation_id=UUID(int=incarnation),
            features=features,
            rack=rack,
            previous_broker_epoch=previous,
        )
        return self.run(broker_registration, request)

    def heartbeat(self, broker, *, epoch=None, offset=None, fence=False, stop=False):
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=self.epoch_of(broker) if epoch is None else epoch,
            current_metadata_offset=len(self.log) - 1 if offset is None else offset,
            want_fence=fence,
            want_shut_down=stop,
        )
        return self.run(broker_heartbeat, request)

    def epoch_of(self, broker):
        registered = self.image.brokers.get(broker)
        return -1 if registered is None else registered.epoch

    def partition(self, topic, index):
        return self.image.topics_by_name[topic].partitions[index]

    def alter_isr(self, broker, topic, index, members, *, leader_epoch=None, partition_epoch=None, recovery=0):
        """The answer for one partition; `members` are ids, or pairs of an id and a broker epoch."""
        partition = self.partition(topic, index)
        states = [each if isinstance(each, tuple) else (each, self.epoch_of(each)) for each in members]
        proposal = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch if leader_epoch is None else leader_epoch,
            partition_epoch=partition.partition_epoch if partition_epoch is None else partition_epoch,
            new_isr_with_epochs=tuple(BrokerState(broker_id=each, broker_epoch=epoch) for each, epoch in states),
            leader_recovery_state=recovery,
        )
        topic_id = self.image.topics_by_name[topic].topic_id
        data = AlterPartitionRequestTopicData(topic_id=topic_id, partitions=(proposal,))
        request = AlterPartitionRequest(broker_id=broker, broker_epoch=self.epoch_of(broker), topics=(data,))
        response = self.run(alter_partition, request)
        return response.topics[0].partitions[0] if response.topics else response

    # Clients

    def create(self, name, *, partitions=-1, factor=-1, replicas=(), configs=None):
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=tuple(
                CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(ids))
                for index, ids in enumerate(replicas)
            ),
            configs=tuple(CreatableTopicConfig(name=key, value=text) for key, text in (configs or {}).items()),
        )
        return self.run(create_topics, CreateTopicsRequest(topics=(topic,))).topics[0]

    def set_config(self, kind, name, key, value):
        config = AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=(config,))
        return self.run(incremental_alter_configs, IncrementalAlterConfigsRequest(resources=(resource,))).responses[0]

    def elect(self, kind, topic=None, index=0):
        named = None if topic is None else (TopicPartitions(topic=topic, partitions=(index,)),)
        return self.run(elect_leaders, ElectLeadersRequest(election_type=kind, topic_partitions=named))

    def reassign(self, topic, index, replicas, *, keep_factor=False):
        part = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=not keep_factor,
            topics=(ReassignableTopic(name=topic, partitions=(part,)),),
        )
        return self.run(alter_partition_reassignments, request).responses[0].partitions[0]

    def unregister(self, broker):
        return self.run(partial(unregister_broker), UnregisterBrokerRequest(broker_id=broker))
