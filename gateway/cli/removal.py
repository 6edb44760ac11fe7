"""Remove nodes from a cluster permanently: as voters of the metadata quorum, and as registered brokers."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from odradek.gateway.cli.client import Admin, Target, retrying, send
from odradek.gateway.cli.errors import CliError, broker_error_text
from odradek.gateway.cli.messages import request
from odradek.gateway.cli.output import counted
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.types import ZERO_UUID

_FIXED = (
    "its voters are those of controller.quorum.voters: odradek features upgrade kraft.version=1, or change it there"
)


def serves(broker: Mapping[str, Any]) -> bool:
    """True if a described broker is not fenced. Kafka before 4.0 lists only brokers that are not fenced."""
    return not broker.get("is_fenced", False)


def check_removable(node: int, found: Mapping[str, Any], topics: Sequence[Mapping[str, Any]]) -> None:
    """Raise CliError for a broker that is not fenced, or that still has replicas."""
    if any(broker["broker_id"] == node and serves(broker) for broker in found["brokers"]):
        raise CliError(f"broker {node} serves: odradek cluster drain {node}, then stop it, then remove it")
    held = [
        f"{topic['name']}-{part['partition_index']}"
        for topic in topics
        for part in topic["partitions"]
        if node in part["replica_nodes"]
    ]
    if held:
        which = f"{counted(len(held), 'partition')}, as {held[0]}"
        raise CliError(f"broker {node} holds replicas of {which}: odradek cluster reassign TOPIC --brokers IDS")


def remove_node(admin: Admin, target: Target, node: int) -> list[str]:
    """Remove a node as a voter, and then as a broker, if it is one; returns which of the two it was.

    Raises CliError if the cluster refuses, or has no such node.
    """
    done: list[str] = []
    if voter := _voter(admin, target, node):
        _remove_voter(admin, node, voter)
        done.append("voter")
    response = send(admin, request("UnregisterBroker", broker_id=node))
    if response.error_code == 0:
        done.append("broker")
    elif not (done and response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED):
        raise CliError(f"broker {node}: {broker_error_text(response.error_code, response.error_message)}")
    return done


def _voter(admin: Admin, target: Target, node: int) -> Mapping[str, Any] | None:
    quorum = retrying(target, admin.describe_metadata_quorum)
    voters = quorum["topics"][0]["partitions"][0]["current_voters"]
    return next((voter for voter in voters if voter["replica_id"] == node), None)


def _remove_voter(admin: Admin, node: int, voter: Mapping[str, Any]) -> None:
    directory_id = UUID(str(voter.get("replica_directory_id") or ZERO_UUID))  # none before Kafka 3.9
    response = send(admin, request("RemoveRaftVoter", cluster_id=None, voter_id=node, voter_directory_id=directory_id))
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION or directory_id == ZERO_UUID:
        raise CliError(f"node {node} is a voter of the metadata quorum, and {_FIXED}")
    if response.error_code:
        raise CliError(f"voter {node}: {broker_error_text(response.error_code, response.error_message)}")
