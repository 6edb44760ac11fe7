"""Makes this controller a voter automatically: `controller.quorum.auto.join.enable` (KIP-1186).

It follows for `controller.quorum.fetch.timeout.ms` first, and repeats its request at that interval, until the log has
it as a voter. If the log has a voter with its id and another directory (one that was lost), it first removes that
voter.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import trio

from odradek.coordinator.quorum.values import State
from odradek.gateway.errors import received_error
from odradek.gateway.peers import PeerCallError
from odradek.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from odradek.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

if TYPE_CHECKING:
    from odradek.coordinator.quorum.quorum import Quorum
    from odradek.coordinator.quorum.values import Timing
    from odradek.gateway.quorum.metadata_log import MetadataReplica
    from odradek.wire.schema.schema import Message

log = logging.getLogger(__name__)

ADD_VERSION, REMOVE_VERSION = 1, 0


class Joining(Protocol):
    """The parts of `QuorumDriver` that joining uses."""

    replica: "MetadataReplica"
    endpoints: Mapping[str, tuple[str, int]]

    @property
    def core(self) -> "Quorum":
        """See `QuorumDriver.core`."""
        ...

    @property
    def leader_id(self) -> int:
        """See `QuorumDriver.leader_id`."""
        ...

    def cluster_id(self) -> str:
        """See `QuorumDriver.cluster_id`."""
        ...

    def endpoint_of(self, node_id: int) -> tuple[str, int] | None:
        """See `QuorumDriver.endpoint_of`."""
        ...

    async def call(self, node: int, endpoint: tuple[str, int], message: "Message", version: int) -> "Message":
        """See `QuorumDriver.call`."""
        ...


async def join_automatically(quorum: Joining, timing: "Timing") -> None:
    """Join as the module's docstring describes; until cancelled, since an operator may remove the voter again."""
    while True:
        await trio.sleep(timing.fetch_ms / 1000)
        request = request_of(quorum, timing)
        endpoint = quorum.endpoint_of(quorum.leader_id)
        if request is None or endpoint is None:
            continue
        version = ADD_VERSION if isinstance(request, AddRaftVoterRequest) else REMOVE_VERSION
        try:
            answer = await quorum.call(quorum.leader_id, endpoint, request, version)
        except PeerCallError as error:
            log.debug("the leader of the quorum does not answer cause=%s", error)
            continue
        assert isinstance(answer, AddRaftVoterResponse | RemoveRaftVoterResponse)
        what = "joins the voters" if version == ADD_VERSION else "replaces its old directory"
        if code := received_error(answer.error_code):
            refused, cause = "refused: %s node_id=%d cause=%s", answer.error_message or code.name
            quorum.replica.repeats.note((what, code), log, logging.WARNING, refused, what, quorum.core.me.id, cause)
        else:
            log.info("%s node_id=%d", what, quorum.core.me.id)


def request_of(quorum: Joining, timing: "Timing") -> AddRaftVoterRequest | RemoveRaftVoterRequest | None:
    """The request to the leader; None for a voter, if there is no leader, and if the settings contain the voters."""
    core, logged = quorum.core, quorum.replica.voters
    if core.state is not State.FOLLOWER or core.is_voter or logged is None:
        return None
    cluster_id, old = quorum.cluster_id() or None, logged.voters.get(core.me.id)
    if old is not None:
        return RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=old.key.id, voter_directory_id=old.key.directory_id
        )
    listeners = [Listener(name=name, host=at[0], port=at[1]) for name, at in sorted(quorum.endpoints.items())]
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timing.request_ms,
        voter_id=core.me.id,
        voter_directory_id=core.me.directory_id,
        listeners=tuple(listeners),
        ack_when_committed=False,
    )
