"""The APIs of Kafka 4.4 and Odradek's own, their versions, and the tables of versions that the broker advertises."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class ApiKey(IntEnum):
    """API numbers, under Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94
    # Odradek's own. Kafka numbers its APIs from 0 up; clients ignore unknown numbers.
    IMPORT_BATCHES = 10001


class ServedVersions(NamedTuple):
    """The first and last version of an API, and its first flexible version, if any."""

    first: int
    last: int
    flexible_from: int | None


KAFKA_VERSIONS: dict[ApiKey, ServedVersions] = {
    ApiKey.PRODUCE: ServedVersions(3, 13, 9),
    ApiKey.FETCH: ServedVersions(4, 18, 12),
    ApiKey.LIST_OFFSETS: ServedVersions(1, 11, 6),
    ApiKey.METADATA: ServedVersions(0, 13, 9),
    ApiKey.OFFSET_COMMIT: ServedVersions(2, 10, 8),
    ApiKey.OFFSET_FETCH: ServedVersions(1, 10, 6),
    ApiKey.FIND_COORDINATOR: ServedVersions(0, 6, 3),
    ApiKey.JOIN_GROUP: ServedVersions(0, 9, 6),
    ApiKey.HEARTBEAT: ServedVersions(0, 4, 4),
    ApiKey.LEAVE_GROUP: ServedVersions(0, 5, 4),
    ApiKey.SYNC_GROUP: ServedVersions(0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: ServedVersions(0, 6, 5),
    ApiKey.LIST_GROUPS: ServedVersions(0, 5, 3),
    ApiKey.SASL_HANDSHAKE: ServedVersions(0, 1, None),
    ApiKey.API_VERSIONS: ServedVersions(0, 5, 3),
    ApiKey.CREATE_TOPICS: ServedVersions(2, 7, 5),
    ApiKey.DELETE_TOPICS: ServedVersions(1, 6, 4),
    ApiKey.DELETE_RECORDS: ServedVersions(0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: ServedVersions(0, 5, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ServedVersions(2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: ServedVersions(0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: ServedVersions(0, 4, 3),
    ApiKey.END_TXN: ServedVersions(0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: ServedVersions(1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: ServedVersions(0, 6, 3),
    ApiKey.DESCRIBE_ACLS: ServedVersions(1, 3, 2),
    ApiKey.CREATE_ACLS: ServedVersions(1, 3, 2),
    ApiKey.DELETE_ACLS: ServedVersions(1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: ServedVersions(1, 4, 4),
    ApiKey.ALTER_CONFIGS: ServedVersions(0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ServedVersions(1, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: ServedVersions(1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: ServedVersions(0, 2, 2),
    ApiKey.CREATE_PARTITIONS: ServedVersions(0, 3, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: ServedVersions(1, 3, 2),
    ApiKey.RENEW_DELEGATION_TOKEN: ServedVersions(1, 2, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ServedVersions(1, 2, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ServedVersions(1, 3, 2),
    ApiKey.DELETE_GROUPS: ServedVersions(0, 3, 2),
    ApiKey.ELECT_LEADERS: ServedVersions(0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ServedVersions(0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ServedVersions(0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ServedVersions(0, 0, 0),
    ApiKey.OFFSET_DELETE: ServedVersions(0, 0, None),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ServedVersions(0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: ServedVersions(0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ServedVersions(0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ServedVersions(0, 0, 0),
    ApiKey.VOTE: ServedVersions(0, 2, 0),
    ApiKey.BEGIN_QUORUM_EPOCH: ServedVersions(0, 1, 1),
    ApiKey.END_QUORUM_EPOCH: ServedVersions(0, 1, 1),
    ApiKey.DESCRIBE_QUORUM: ServedVersions(0, 2, 0),
    ApiKey.ALTER_PARTITION: ServedVersions(2, 3, 0),
    ApiKey.UPDATE_FEATURES: ServedVersions(0, 2, 0),
    ApiKey.ENVELOPE: ServedVersions(0, 0, 0),
    ApiKey.FETCH_SNAPSHOT: ServedVersions(0, 1, 0),
    ApiKey.DESCRIBE_CLUSTER: ServedVersions(0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: ServedVersions(0, 0, 0),
    ApiKey.BROKER_REGISTRATION: ServedVersions(0, 4, 0),
    ApiKey.BROKER_HEARTBEAT: ServedVersions(0, 2, 0),
    ApiKey.UNREGISTER_BROKER: ServedVersions(0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: ServedVersions(0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: ServedVersions(0, 2, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: ServedVersions(0, 0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ServedVersions(0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ServedVersions(0, 1, 0),
    ApiKey.CONTROLLER_REGISTRATION: ServedVersions(0, 0, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: ServedVersions(0, 0, 0),
    ApiKey.PUSH_TELEMETRY: ServedVersions(0, 0, 0),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ServedVersions(0, 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: ServedVersions(0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ServedVersions(0, 0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: ServedVersions(1, 1, 0),
    ApiKey.SHARE_GROUP_DESCRIBE: ServedVersions(1, 1, 0),
    ApiKey.SHARE_FETCH: ServedVersions(1, 2, 0),
    ApiKey.SHARE_ACKNOWLEDGE: ServedVersions(1, 2, 0),
    ApiKey.ADD_RAFT_VOTER: ServedVersions(0, 1, 0),
    ApiKey.REMOVE_RAFT_VOTER: ServedVersions(0, 0, 0),
    ApiKey.UPDATE_RAFT_VOTER: ServedVersions(0, 0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ServedVersions(0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: ServedVersions(0, 0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: ServedVersions(0, 1, 0),
    ApiKey.DELETE_SHARE_GROUP_STATE: ServedVersions(0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ServedVersions(0, 1, 0),
    ApiKey.STREAMS_GROUP_HEARTBEAT: ServedVersions(0, 1, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: ServedVersions(0, 1, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ServedVersions(0, 1, 0),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ServedVersions(0, 0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ServedVersions(0, 0, 0),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: ServedVersions(0, 0, 0),
    ApiKey.UNREGISTER_CONTROLLER: ServedVersions(0, 0, 0),
}
"""The versions that Kafka 4.4.0 serves, without latest versions that it marks as unstable."""

OWN_VERSIONS: dict[ApiKey, ServedVersions] = {ApiKey.IMPORT_BATCHES: ServedVersions(0, 0, 0)}
"""The versions of the APIs that Kafka does not have."""

_VERSIONS: dict[ApiKey, ServedVersions] = KAFKA_VERSIONS | OWN_VERSIONS

ADVERTISED: dict[ApiKey, tuple[int, int]] = {
    # 0-2 are advertised but refused: librdkafka up to 2.3 takes a minimum of 3 to mean that the broker does not support
    # message format 2, and silently stops compressing (KAFKA-18659). Produce 13 names topics by id; the Java client
    # fails unless Metadata has the ids. So all versions with topic ids are advertised together: Produce, Fetch and
    # Metadata 13, DeleteTopics 6, OffsetCommit and OffsetFetch 10.
    ApiKey.PRODUCE: (0, 13),
    # Minimum versions, here and below, are as low as Kafka's, since old librdkafka requires exact versions.
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    # kafka-go always sends OffsetCommit 2 and OffsetFetch 1.
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    # kafka-go always sends version 0 of FindCoordinator, Heartbeat, LeaveGroup and SyncGroup.
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    # Version 5, in which the broker has to check the cluster id and node id that the client expects (KIP-1242), is not
    # implemented. Kafka 4.3 serves up to 4, too.
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    # Version 6 is for two-phase commit, which is unstable in Kafka, too.
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    # Versions from 4 on are for requests between brokers (KIP-890).
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    # Version 6, which names topics by id, is not implemented.
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3),
    # Version 3, which adds an error message to each result, is not served.
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
    ApiKey.IMPORT_BATCHES: (0, 0),
}
"""The lowest and highest version of each API that the broker offers in ApiVersions."""

CONTROLLER_ADVERTISED: dict[ApiKey, tuple[int, int]] = {
    **{
        key: ADVERTISED[key]
        for key in (
            ApiKey.API_VERSIONS,
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.DESCRIBE_CONFIGS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.ELECT_LEADERS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.UPDATE_FEATURES,
            ApiKey.DESCRIBE_CLUSTER,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.REMOVE_RAFT_VOTER,
        )
    },
    ApiKey.UPDATE_RAFT_VOTER: (0, 0),
    ApiKey.ALTER_PARTITION: (2, 3),
    ApiKey.ENVELOPE: (0, 0),
    ApiKey.BROKER_REGISTRATION: (0, 4),
    # Version 2, which adds the directories in which a broker accepts no new replicas (KIP-1066), is not served.
    ApiKey.BROKER_HEARTBEAT: (0, 1),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
    ApiKey.CONTROLLER_REGISTRATION: (0, 0),
    ApiKey.FETCH: (12, 18),
    ApiKey.VOTE: (0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
}
"""As `ADVERTISED`, but for controller listeners. An API is added together with its handler and the handler's test."""

API_KEY_BY_NUMBER: dict[int, ApiKey] = {int(key): key for key in ApiKey}
"""All API keys by number; see `api_key_of`."""

_NEVER = 1 << 15
FLEXIBLE_FROM: dict[ApiKey, int] = {
    key: _NEVER if known.flexible_from is None else known.flexible_from for key, known in _VERSIONS.items()
}
"""The first flexible version of each API; a number above all versions for an API without one."""


def api_key_of(number: int) -> ApiKey | None:
    """Return the API with this number, or None if neither Kafka 4.4 nor Odradek has one."""
    return API_KEY_BY_NUMBER.get(number)


def is_flexible(key: ApiKey, version: int) -> bool:
    """True if ``version`` of ``key`` uses compact lengths and tagged fields (KIP-482)."""
    return version >= FLEXIBLE_FROM[key]
