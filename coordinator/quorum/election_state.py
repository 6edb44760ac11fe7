"""The election state as text, in the fields of Kafka's `quorum-state` file (version 1)."""

import json
from uuid import UUID

from odradek.coordinator.quorum.values import NO_NODE, ElectionState, ReplicaKey
from odradek.wire.schema.types import ZERO_UUID

VERSION = 1


def to_text(state: ElectionState) -> str:
    """Returns one line of JSON."""
    voted = state.voted or ReplicaKey(NO_NODE)
    return json.dumps(
        {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted.id,
            "votedDirectoryId": str(voted.directory_id),
            "data_version": VERSION,
        }
    )


def from_text(text: str) -> ElectionState:
    """Parse the line; an empty text is the state of a node that has never taken part. Raises ValueError."""
    if not text:
        return ElectionState()
    try:
        found = json.loads(text)
        if found["data_version"] != VERSION:
            raise ValueError(f"the election state has version {found['data_version']}, this software knows {VERSION}")
        voted_id = int(found["votedId"])
        voted = None if voted_id == NO_NODE else ReplicaKey(voted_id, UUID(found.get("votedDirectoryId", ZERO_UUID)))
        return ElectionState(int(found["leaderEpoch"]), int(found["leaderId"]), voted)
    except (KeyError, TypeError) as error:
        raise ValueError(f"the election state cannot be read: {text!r}") from error
