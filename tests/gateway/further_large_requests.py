"""Large requests of the APIs that `test_large_requests` does not have, and the reasons for APIs without any."""

from gateway_client import RawClient, batch_of
from gateway_groups import joined
from long_form import rounds

from odradek.wire.api_keys import ApiKey
from odradek.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from odradek.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from odradek.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from odradek.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from odradek.wire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from odradek.wire.messages.describe_quorum import DescribeQuorumRequest
from odradek.wire.messages.describe_quorum import DescribeQuorumRequestPartitionData as QuorumPartition
from odradek.wire.messages.describe_quorum import DescribeQuorumRequestTopicData as QuorumTopic
from odradek.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from odradek.wire.messages.import_batches import ImportBatchesRequest, ImportPartition, ImportTopic
from odradek.wire.messages.init_producer_id import InitProducerIdRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.list_transactions import ListTransactionsRequest
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

MANY = rounds(2000, 10_000)
MEMBERS = rounds(500, 1000)
TRANSACTIONS = rounds(200, 10_000)

_ONE_NAME = "it names one group, member, transaction or broker, and its answer holds one result"
_TOKENS = "delegation tokens are not offered: it is refused before anything is looked at, and it lists nothing"
WITHOUT_SIZE = {
    ApiKey.HEARTBEAT: _ONE_NAME,
    ApiKey.ADD_OFFSETS_TO_TXN: _ONE_NAME,
    ApiKey.UNREGISTER_BROKER: _ONE_NAME,
    ApiKey.REMOVE_RAFT_VOTER: _ONE_NAME,
    ApiKey.ADD_RAFT_VOTER: "a new voter's listeners are its only list, and a broker of one node takes no voter",
    ApiKey.SASL_HANDSHAKE: "it names one mechanism",
    ApiKey.SASL_AUTHENTICATE: "its bytes are looked at by a mechanism only, and none is offered",
    ApiKey.API_VERSIONS: "it holds two names, and its answer the APIs",
    ApiKey.DESCRIBE_CLUSTER: "it lists nothing, and its answer one broker",
    ApiKey.DESCRIBE_ACLS: "one filter, over no ACLs: there is no authorizer",
    ApiKey.RENEW_DELEGATION_TOKEN: _TOKENS,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _TOKENS,
}
"""The APIs whose requests and answers cannot be large, with the reason."""

QUOTA = (OpData(key="request_percentage", value=5.0),)
USERS = [f"user-{number}" for number in range(MANY)]


def further_requests(client: RawClient, wide: range):
    """The requests, each with its version unless it is the client's default; `wide` are a topic's partitions."""
    yield from _administration(wide)
    yield from _unsupported()
    yield from _members(client)
    yield from _transactions(client, wide)


def _administration(wide):
    entries = [
        AlterClientQuotasRequestEntryData(
            entity=(EntityData(entity_type="user", entity_name=name),),
            ops=QUOTA,
        )
        for name in USERS
    ]
    yield AlterClientQuotasRequest(entries=tuple(entries)), None
    yield DescribeClientQuotasRequest(components=(ComponentData(entity_type="user", match_type=2, match=None),)), None
    upserted = [
        ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32))
        for name in USERS
    ]
    yield AlterUserScramCredentialsRequest(upsertions=tuple(upserted)), None
    yield DescribeUserScramCredentialsRequest(users=None), None
    yield DescribeUserScramCredentialsRequest(users=tuple([UserName(name=name) for name in USERS])), None
    moved = (AlterReplicaLogDirTopic(name="wide", partitions=tuple(wide)),)
    yield AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path="/nowhere", topics=moved),)), None
    updates = [FeatureUpdateKey(feature=f"feature-{number}", max_version_level=1) for number in range(MANY)]
    yield UpdateFeaturesRequest(feature_updates=tuple(updates)), None
    parts = [ReassignablePartition(partition_index=index, replicas=(1,)) for index in wide]
    yield (
        AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="wide", partitions=tuple(parts)),)),
        None,
    )
    asked = [QuorumPartition(partition_index=index) for index in range(MANY)]
    yield DescribeQuorumRequest(topics=(QuorumTopic(topic_name="wide", partitions=tuple(asked)),)), None

    batch = memoryview(batch_of(b"x", base_offset=1))
    imported = tuple([ImportPartition(index=index, records=batch) for index in wide])
    yield ImportBatchesRequest(timeout_ms=60_000, topics=(ImportTopic(name="wide", partitions=imported),)), None
    short = b"".join([batch_of(b"x", base_offset=2 + number) for number in range(20 * MANY)])
    imported = (ImportPartition(index=0, records=memoryview(short)),)
    yield ImportBatchesRequest(timeout_ms=60_000, topics=(ImportTopic(name="wide", partitions=imported),)), None


def _unsupported():
    """Requests that a broker without an authorizer and delegation tokens refuses."""
    acl = {"resource_name": "t", "principal": "User:u", "host": "*", "operation": 3, "permission_type": 3}
    yield CreateAclsRequest(creations=tuple([AclCreation(resource_type=2, **acl) for _ in USERS])), None
    yield DeleteAclsRequest(filters=tuple([DeleteAclsFilter(resource_type_filter=2) for _ in USERS])), None
    renewers = [CreatableRenewers(principal_type="User", principal_name=name) for name in USERS]
    yield CreateDelegationTokenRequest(renewers=tuple(renewers), max_lifetime_ms=-1), None
    owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in USERS]
    yield DescribeDelegationTokenRequest(owners=tuple(owners)), None


def _members(client):
    """A consumer group of many members, and requests about all of them."""
    members = [f"member-{number}" for number in range(MEMBERS)]
    for member in members:
        yield (
            ConsumerGroupHeartbeatRequest(
                group_id="crowd",
                member_id=member,
                member_epoch=0,
                instance_id=member,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=("wide",),
                topic_partitions=(),
            ),
            None,
        )
    yield ConsumerGroupDescribeRequest(group_ids=("crowd",)), None
    assigned = [SyncGroupRequestAssignment(member_id=member, assignment=bytes(1000)) for member in members]
    leader = joined(client, "led")
    yield (
        SyncGroupRequest(
            group_id="led",
            generation_id=leader.generation_id,
            member_id=leader.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(assigned),
        ),
        None,
    )
    left = [MemberIdentity(member_id=member, group_instance_id=member) for member in members]
    yield LeaveGroupRequest(group_id="crowd", members=tuple(left)), None


def _transactions(client, wide):
    for number in range(TRANSACTIONS):
        yield InitProducerIdRequest(transactional_id=f"many-{number}", transaction_timeout_ms=60_000), None
    yield ListTransactionsRequest(), None
    unknown = [
        AddPartitionsToTxnTransaction(
            transactional_id=f"many-{number}",
            producer_id=number,
            verify_only=True,
            topics=(AddPartitionsToTxnTopic(name="wide", partitions=(0,)),),
        )
        for number in range(MANY)
    ]
    yield AddPartitionsToTxnRequest(transactions=tuple(unknown)), 5
    who = client.call(InitProducerIdRequest(transactional_id="many-0", transaction_timeout_ms=60_000))
    assert who.error_code == 0
    parts = [TxnOffsetCommitRequestPartition(partition_index=index) for index in wide]
    yield (
        TxnOffsetCommitRequest(
            transactional_id="many-0",
            group_id="g",
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            topics=(TxnOffsetCommitRequestTopic(name="wide", partitions=tuple(parts)),),
        ),
        5,
    )
    topics = (WritableTxnMarkerTopic(name="wide", partition_indexes=tuple(wide)),)
    yield WriteTxnMarkersRequest(markers=(WritableTxnMarker(producer_id=10**6, topics=topics),)), None
