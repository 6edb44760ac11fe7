"""Where a leader proposes in-sync replicas: the controller, behind an interface that tests and the simulation fill."""

from typing import Final, Protocol

from odradek.gateway.env.completion import Completion, completed
from odradek.partitions.in_sync import IsrDecision, IsrProposal
from odradek.partitions.model import PartitionKey
from odradek.wire.errors import ErrorCode

IsrAnswer = IsrDecision | ErrorCode
"""What the controller has decided, or why it has not, as `InSyncReplicas.answered` takes it."""


class IsrProposals(Protocol):
    """Takes proposals to the controller."""

    def propose(self, key: PartitionKey, proposal: IsrProposal) -> Completion[IsrAnswer]:
        """Take a proposal there. Settles with the answer, however long it takes, and never fails.

        A partition has one proposal under way: the next one is refused with OPERATION_NOT_ATTEMPTED. The answer is one
        of the controller about this partition. Where there is none (no connection, another controller now), the
        proposal is sent again, with pauses.
        """
        ...


class _NoController:
    """For logs that are not partitions of the metadata (the metadata log itself): there are no ISR decisions."""

    def propose(self, key: PartitionKey, proposal: IsrProposal) -> Completion[IsrAnswer]:
        """See `IsrProposals.propose`."""
        del key, proposal
        return completed(ErrorCode.OPERATION_NOT_ATTEMPTED)


NO_CONTROLLER: Final[IsrProposals] = _NoController()
"""Attempts nothing."""
