"""Sends the leaders' ISR proposals to the controller: AlterPartition, one request at a time.

Proposals made while a request is in flight go into the next one. A proposal is sent again, with pauses, until there is
a response without a top-level error: before, it is unknown which ISR is in force, and the leader counts every replica
that may be in sync by now. If the error for a partition does not decide on the proposal itself, its leader gets the
error and proposes again.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

import trio

from odradek.gateway.env.completion import Completion, completed
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import received_error
from odradek.gateway.replication.proposals import IsrAnswer
from odradek.partitions.in_sync import REFUSED, VIEW_IS_OLD, IsrDecision, IsrProposal
from odradek.partitions.model import PartitionKey
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:  # imported with the first proposal, so that a broker that is alone starts faster
    from odradek.wire.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionResponse,
    )

log = logging.getLogger(__name__)

RETRY_MS: Final = 50
MAX_RETRY_MS: Final = 1000

_Partition = tuple[UUID, int]
_Waiting = tuple[IsrProposal, Completion[IsrAnswer]]


class NoAnswerError(Exception):
    """The controller is unreachable now, or has not responded; the request may have been carried out."""


class AlterPartitionSender:
    """Implements `IsrProposals` by requests to the controller.

    `call` sends one and returns its response, or raises NoAnswerError; `broker_epoch` returns the epoch of this
    broker's registration, None while it has none. `run` sends the requests.
    """

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int | None],
        call: "Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]",
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._call = call
        self._pending: dict[_Partition, _Waiting] = {}
        self._work = Signal()
        self._failures = 0

    def propose(self, key: PartitionKey, proposal: IsrProposal) -> Completion[IsrAnswer]:
        """See `IsrProposals.propose`. A proposal of a later epoch replaces one that waits."""
        partition = (key.topic_id, key.index)
        before = self._pending.get(partition)
        if before is not None and before[0].leader_epoch >= proposal.leader_epoch:
            return completed(ErrorCode.OPERATION_NOT_ATTEMPTED)
        answered: Completion[IsrAnswer] = Completion()
        self._pending[partition] = proposal, answered
        if before is not None:
            before[1].settle(ErrorCode.FENCED_LEADER_EPOCH)
        self._work.wake()
        return answered

    async def run(self) -> None:
        """Send proposals until cancelled."""
        while True:
            if not self._pending:
                await self._work.wait()
            elif await self._send(dict(self._pending)):
                self._failures = 0
            else:
                await trio.sleep(min(RETRY_MS << min(self._failures, 10), MAX_RETRY_MS) / 1000)
                self._failures += 1

    async def _send(self, sent: dict[_Partition, _Waiting]) -> bool:
        """Send a request, and settle its proposals with the response; False if the next request must wait.

        It must wait if nothing was sent (this broker is not registered), if there was no response, if the response has
        a top-level error, or if it is one after which a leader repeats its proposal.
        """
        broker_epoch = self._broker_epoch()
        if broker_epoch is None:
            return False
        try:
            response = await self._call(_request(self._broker_id, broker_epoch, sent))
        except NoAnswerError as error:
            log.debug("the controller does not answer cause=%s", error)
            return False
        if response.error_code != ErrorCode.NONE:
            log.info("AlterPartition refused error=%s", received_error(response.error_code).name)
            return False
        answers = _answers(response)
        for partition, waiting in sent.items():
            if self._pending.get(partition) is waiting:  # otherwise replaced by a proposal of a later epoch
                del self._pending[partition]
                waiting[1].settle(answers.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR))
        return all(partition in answers and _is_definite(answers[partition]) for partition in sent)


def _is_definite(answer: IsrAnswer) -> bool:
    return isinstance(answer, IsrDecision) or answer in REFUSED or answer in VIEW_IS_OLD


def _request(broker_id: int, broker_epoch: int, sent: dict[_Partition, _Waiting]) -> "AlterPartitionRequest":
    from odradek.wire.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionRequestPartitionData,
        AlterPartitionRequestTopicData,
        BrokerState,
    )

    by_topic: dict[UUID, list[AlterPartitionRequestPartitionData]] = {}
    for (topic_id, index), (proposal, _) in sent.items():
        members = [BrokerState(broker_id=each.broker_id, broker_epoch=each.broker_epoch) for each in proposal.members]
        asked = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=proposal.leader_epoch,
            new_isr_with_epochs=tuple(members),
            partition_epoch=proposal.partition_epoch,
        )
        by_topic.setdefault(topic_id, []).append(asked)
    topics = [
        AlterPartitionRequestTopicData(topic_id=topic_id, partitions=tuple(asked))
        for topic_id, asked in by_topic.items()
    ]
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=tuple(topics))


def _answers(response: "AlterPartitionResponse") -> dict[_Partition, IsrAnswer]:
    answers: dict[_Partition, IsrAnswer] = {}
    for topic in response.topics:
        for part in topic.partitions:
            error = received_error(part.error_code)
            decision = IsrDecision(part.leader_epoch, part.isr, part.partition_epoch)
            answers[topic.topic_id, part.partition_index] = error or decision
    return answers
