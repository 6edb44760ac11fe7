"""The interface by which a leader proposes an ISR to the controller; tests and the simulation implement it, too."""

from typing import Final, Protocol

from odradek.gateway.env.completion import Completion, completed
from odradek.partitions.in_sync import IsrDecision, IsrProposal
from odradek.partitions.model import PartitionKey
from odradek.wire.errors import ErrorCode

IsrAnswer = IsrDecision | ErrorCode
"""The controller's decision, or its error, as `InSyncReplicas.answered` takes it."""


class IsrProposals(Protocol):
    """Sends proposals to the controller."""

    def propose(self, key: PartitionKey, proposal: IsrProposal) -> Completion[IsrAnswer]:
        """Send a proposal. The completion settles with the response, however long it takes, and never fails.

        A partition has one proposal in flight. A further one is refused with OPERATION_NOT_ATTEMPTED, unless its leader
        epoch is later: it then replaces the first, which settles with FENCED_LEADER_EPOCH. The response is the
        controller's for this partition. If there is none (no connection, another controller now, the whole request
        refused), the proposal is sent again, with pauses.
        """
        ...


class _NoController:
    """For logs that are not partitions of the metadata (the metadata log itself): there are no ISR decisions."""

    def propose(self, key: PartitionKey, proposal: IsrProposal) -> Completion[IsrAnswer]:
        """See `IsrProposals.propose`."""
        del key, proposal
        return completed(ErrorCode.OPERATION_NOT_ATTEMPTED)


NO_CONTROLLER: Final[IsrProposals] = _NoController()
"""Refuses every proposal."""
