"""A `Wire` over several nodes: each request goes to the node that serves it, as a client's does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from compat_tests.clusters import Nodes
from compat_tests.every_version import Wire
from compat_tests.frames import await_leaders
from compat_tests.processes import wait_for
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_partitions import CreatePartitionsAssignment
from odradek.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.wire.schema.schema import Message

GROUP, TRANSACTION = 0, 1
LEADER: Final = 1
"""The node that leads all topics of a stage, and gets all requests that are not for a coordinator."""
OF_GROUPS: Final = {
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.TXN_OFFSET_COMMIT,
}  # fmt: skip
OF_TRANSACTIONS: Final = {
    ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN,
    ApiKey.DESCRIBE_TRANSACTIONS,
}  # fmt: skip
LISTS: Final = {ApiKey.LIST_GROUPS: "groups", ApiKey.LIST_TRANSACTIONS: "transaction_states"}
"""Requests that each broker answers for its own share, with the field to merge."""


class ClusterWire(Wire):
    """Connections to all nodes. A request for several groups or transactions goes to the first one's coordinator."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__(nodes[LEADER].bootstrap)
        self._nodes = nodes
        self._others: dict[int, Wire] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        for wire in self._others.values():
            wire.socket.close()

    def call(self, key: ApiKey, version: int, request: Message) -> Any:
        """Sends to the node that serves the request, and receives.

        Raises ConnectionResetError if the node closes instead.
        """
        if (field := LISTS.get(key)) is None:
            return self._ask(self._node(key, request), key, version, request)
        answers = self.call_all(key, version, request)
        listed = [each for answer in answers for each in getattr(answer, field)]
        return replace(answers[0], **{field: tuple(listed)})

    def call_all(self, key: ApiKey, version: int, request: Message) -> list[Any]:
        return [self._ask(node, key, version, request) for node in self._nodes.nodes]

    def _ask(self, node: int, key: ApiKey, version: int, request: Message) -> Any:
        if node == LEADER:
            return super().call(key, version, request)
        if node not in self._others:
            self._others[node] = Wire(self._nodes[node].bootstrap)
        return self._others[node].call(key, version, request)

    def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> str:
        """Creates a topic with a replica on each node and the same leader in every cluster."""
        replicas = self._replicas()
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(
                CreatableReplicaAssignment(partition_index=index, broker_ids=replicas) for index in range(partitions)
            ),
            configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
        )
        answer = super().call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=(topic,), timeout_ms=15_000))
        error = ErrorCode(answer.topics[0].error_code)
        if error is ErrorCode.NONE:
            for node in self._nodes.nodes.values():
                await_leaders(f"{self.bootstrap},{node.bootstrap}", name, partitions)
        return error.name

    def _new_replicas(self) -> tuple[CreatePartitionsAssignment, ...]:
        return (CreatePartitionsAssignment(broker_ids=self._replicas()),)

    def _replicas(self) -> tuple[int, ...]:
        return (LEADER, *(number for number in self._nodes.nodes if number != LEADER))

    def _node(self, key: ApiKey, request: Message) -> int:
        if key in OF_GROUPS:
            return self._coordinator(GROUP, _group_of(request))
        if key in OF_TRANSACTIONS:
            return self._coordinator(TRANSACTION, _transaction_of(request))
        return LEADER

    def _coordinator(self, kind: int, name: str | None) -> int:
        """The node that coordinates a group or transactional id.

        FindCoordinator refuses an empty name. For an empty group id it is the leader of partition 0; any broker refuses
        an empty transactional id.
        """
        if not name:
            return self._leader_of_offsets() if kind == GROUP else LEADER
        if (kind, name) not in self._coordinators:
            wait_for(lambda: self._found(kind, name), f"the coordinator of {name} in {self._nodes.name}")
        return self._coordinators[kind, name]

    def _leader_of_offsets(self) -> int:
        request = MetadataRequest(topics=(MetadataRequestTopic(name="__consumer_offsets"),))
        parts = super().call(ApiKey.METADATA, 12, request).topics[0].partitions
        return next((part.leader_id for part in parts if part.partition_index == 0), LEADER)

    def _found(self, kind: int, name: str) -> bool:
        request = FindCoordinatorRequest(key=name, key_type=kind)
        answer = super().call(ApiKey.FIND_COORDINATOR, 2, request)
        if answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return False
        self._coordinators[kind, name] = LEADER if answer.error_code else answer.node_id
        return True


def _group_of(request: Any) -> str | None:
    several = [list(getattr(request, field, None) or ()) for field in ("groups", "groups_names", "group_ids")]
    first = next((each[0] for each in several if each), None)
    if first is None:
        return getattr(request, "group_id", None)
    return first if isinstance(first, str) else first.group_id


def _transaction_of(request: Any) -> str | None:
    if ids := getattr(request, "transactional_ids", ()):
        return ids[0]
    transactions = getattr(request, "transactions", ())
    if transactions:
        return transactions[0].transactional_id
    return getattr(request, "transactional_id", None) or getattr(request, "v3_and_below_transactional_id", None)
