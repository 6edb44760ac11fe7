"""Kafka's error codes, as clients see them in responses."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """An error code of Kafka 4.4, with its ``message`` and whether it is ``retriable``."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
    CONTROLLER_ID_NOT_REGISTERED = 136

    @property
    def retriable(self) -> bool:
        """True if clients retry the request, perhaps after refreshing metadata."""
        return self in _RETRIABLE

    @property
    def message(self) -> str:
        """The meaning in one sentence, without a full stop."""
        return _MESSAGES[self]


_RETRIABLE = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

_MESSAGES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server met an error it did not expect",
    ErrorCode.NONE: "No error",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset lies outside the range that the partition holds",
    ErrorCode.CORRUPT_MESSAGE: "The record batch is damaged: its checksum, its size or its layout is wrong",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This broker knows no such topic or partition",
    ErrorCode.INVALID_FETCH_SIZE: "The fetch size is not valid",
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader at the moment",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This broker is not the leader, or not a replica, of the partition",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out",
    ErrorCode.BROKER_NOT_AVAILABLE: "The broker is not available",
    ErrorCode.REPLICA_NOT_AVAILABLE: "The replica is not available for the partition",
    ErrorCode.MESSAGE_TOO_LARGE: "The record batch is larger than the topic allows (max.message.bytes)",
    ErrorCode.STALE_CONTROLLER_EPOCH: "The controller has moved to another broker",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "The metadata of the committed offset is too long",
    ErrorCode.NETWORK_EXCEPTION: "The connection broke before the response came",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is still loading its state",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available",
    ErrorCode.NOT_COORDINATOR: "This broker does not coordinate the group or transaction",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic name is not valid, or the topic may not be used so",
    ErrorCode.RECORD_LIST_TOO_LARGE: "The record batch is larger than a segment",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than the topic demands",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "Written, but to fewer in-sync replicas than the topic demands",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be 0, 1 or -1",
    ErrorCode.ILLEGAL_GENERATION: "The group's generation is another one",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The member shares no protocol with the group, or offered none",
    ErrorCode.INVALID_GROUP_ID: "The group id is not valid",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator knows no such member",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout is outside group.min/max.session.timeout.ms",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing; the member must join again",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "The committed offset data has an invalid size",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorised for the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not authorised for the group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorised for the cluster",
    ErrorCode.INVALID_TIMESTAMP: "The record's timestamp is outside the range that the topic accepts",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "The broker does not offer this SASL mechanism",
    ErrorCode.ILLEGAL_SASL_STATE: "The request does not fit the state of the SASL exchange",
    ErrorCode.UNSUPPORTED_VERSION: "The broker does not offer this version of the API",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic of this name exists already",
    ErrorCode.INVALID_PARTITIONS: "The number of partitions is not valid",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor is below 1 or above the number of brokers",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The replica assignment is not valid",
    ErrorCode.INVALID_CONFIG: "The configuration is not valid",
    ErrorCode.NOT_CONTROLLER: "This broker is not the controller",
    ErrorCode.INVALID_REQUEST: "The request is malformed or does not fit this broker",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The broker's message format does not support the request",
    ErrorCode.POLICY_VIOLATION: "A policy of the broker forbids the request",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The producer's sequence number leaves a gap",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "The producer's sequence number was used before",
    ErrorCode.INVALID_PRODUCER_EPOCH: "The producer's epoch is an old one",
    ErrorCode.INVALID_TXN_STATE: "The producer's transaction is in a state that does not allow this",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "The producer id does not belong to this transactional id",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "The transaction timeout is above transaction.max.timeout.ms",
    ErrorCode.CONCURRENT_TRANSACTIONS: "Another operation on the same transaction is under way",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "The transaction coordinator that sent this was replaced",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Not authorised for the transactional id",
    ErrorCode.SECURITY_DISABLED: "Security features are switched off",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "The operation was not tried, because another in the same request failed",
    ErrorCode.KAFKA_STORAGE_ERROR: "The broker could not read or write its storage",
    ErrorCode.LOG_DIR_NOT_FOUND: "The broker has no such log directory",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SASL authentication failed",
    ErrorCode.UNKNOWN_PRODUCER_ID: "The broker no longer knows this producer id",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "A reassignment of the partition is under way",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are switched off",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "The broker knows no such delegation token",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "The principal neither owns nor may renew the delegation token",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation tokens may not be requested over this connection",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Not authorised for the delegation token",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token has expired",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "The principal type is not supported",
    ErrorCode.NON_EMPTY_GROUP: "The group still has members",
    ErrorCode.GROUP_ID_NOT_FOUND: "No such group exists",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "No such fetch session exists",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The fetch session's epoch is not valid",
    ErrorCode.LISTENER_NOT_FOUND: "The leader has no listener of the name that the request came in on",
    ErrorCode.TOPIC_DELETION_DISABLED: "Deleting topics is switched off",
    ErrorCode.FENCED_LEADER_EPOCH: "The request's leader epoch is older than the broker's",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "The request's leader epoch is newer than the broker's",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "The client's version does not support the partition's compression",
    ErrorCode.STALE_BROKER_EPOCH: "The broker's epoch has changed",
    ErrorCode.OFFSET_NOT_AVAILABLE: "The leader is new and cannot yet tell the offset",
    ErrorCode.MEMBER_ID_REQUIRED: "The member must join again with the member id it was given",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not available",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has reached group.max.size",
    ErrorCode.FENCED_INSTANCE_ID: "Another member has taken over this group.instance.id",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica that may lead is available",
    ErrorCode.ELECTION_NOT_NEEDED: "The partition needs no election",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No reassignment of the partition is under way",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "The group still subscribes to the topic, so its offsets cannot be deleted",
    ErrorCode.INVALID_RECORD: "The broker's validation refused the record",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "Offsets of an open transaction are not settled yet",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "A quota was exceeded",
    ErrorCode.PRODUCER_FENCED: "A newer producer uses the same transactional id",
    ErrorCode.RESOURCE_NOT_FOUND: "No such resource exists",
    ErrorCode.DUPLICATE_RESOURCE: "The request names the same resource twice",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "The credential does not meet the rules",
    ErrorCode.INCONSISTENT_VOTER_SET: "Sender or receiver is not in the expected set of voters",
    ErrorCode.INVALID_UPDATE_VERSION: "The version to update to is not valid",
    ErrorCode.FEATURE_UPDATE_FAILED: "The features could not be updated",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "The forwarded principal could not be read",
    ErrorCode.SNAPSHOT_NOT_FOUND: "No such snapshot exists",
    ErrorCode.POSITION_OUT_OF_RANGE: "The position lies outside the snapshot",
    ErrorCode.UNKNOWN_TOPIC_ID: "This broker knows no topic of this id",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "Another broker runs under this id",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "No broker is registered under this id",
    ErrorCode.INCONSISTENT_TOPIC_ID: "The topic id differs from the one in the log",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "The cluster id differs from this cluster's",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "No such transactional id exists",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "The fetch session mixes topic names and topic ids",
    ErrorCode.INELIGIBLE_REPLICA: "The new in-sync set names a replica that may not be in it",
    ErrorCode.NEW_LEADER_ELECTED: "The change was made, but the leader has changed with it",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "The offset has moved to tiered storage",
    ErrorCode.FENCED_MEMBER_EPOCH: "The member's epoch was fenced; it must give up its partitions and join again",
    ErrorCode.UNRELEASED_INSTANCE_ID: "Another member still uses the instance id",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "The group does not support this assignor",
    ErrorCode.STALE_MEMBER_EPOCH: "The member's epoch is stale; it must learn the new one from its next heartbeat",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "The request came to an endpoint of the wrong type",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "This type of endpoint is not supported",
    ErrorCode.UNKNOWN_CONTROLLER_ID: "No such controller is known",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "The telemetry subscription is unknown or out of date",
    ErrorCode.TELEMETRY_TOO_LARGE: "The telemetry is larger than the broker accepts",
    ErrorCode.INVALID_REGISTRATION: "The controller refused the broker's registration",
    ErrorCode.TRANSACTION_ABORTABLE: "The transaction met an error; abort it to go on with this transactional id",
    ErrorCode.INVALID_RECORD_STATE: "The record's state does not allow the acknowledgement",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "No such share session exists",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "The share session's epoch is not valid",
    ErrorCode.FENCED_STATE_EPOCH: "The state epoch differs from the coordinator's",
    ErrorCode.INVALID_VOTER_KEY: "The voter key differs from the receiving replica's",
    ErrorCode.DUPLICATE_VOTER: "The voter is in the set already",
    ErrorCode.VOTER_NOT_FOUND: "The voter is not in the set",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "The regular expression is not valid",
    ErrorCode.REBOOTSTRAP_REQUIRED: "The client's metadata is out of date; it must bootstrap again",
    ErrorCode.STREAMS_INVALID_TOPOLOGY: "The streams topology is not valid",
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "The streams topology's epoch is not valid",
    ErrorCode.STREAMS_TOPOLOGY_FENCED: "The streams topology's epoch is an old one",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "The limit of share sessions is reached",
    ErrorCode.GROUP_DELETION_FAILED: "The group could not be deleted; its result says why",
    ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED: "The topology description could not be updated",
    ErrorCode.CONTROLLER_ID_NOT_REGISTERED: "No controller is registered under this id",
}
