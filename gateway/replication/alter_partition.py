"""Takes the leaders' proposals of in-sync replicas to the controller: AlterPartition, one request at a time.

What is proposed while a request is under way goes with the next one. A request is repeated, with a pause, until there
is an answer: without one it is not known what is in force, and the leaders count every replica that may be in sync by
now. A partition whose answer is an error that says nothing of the proposal itself gets that error, and proposes again.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

import trio

from odradek.gateway.env.completion import Completion, completed
from odradek.gateway.env.signals import Signal
from odradek.gateway.replication.proposals import IsrAnswer
from odradek.partitions.in_sync import REFUSED, VIEW_IS_OLD, IsrDecision, IsrProposal
from odradek.partitions.model import PartitionKey
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:  # imported with the first proposal: a broker that is alone starts faster without
    from odradek.wire.messages.alter_partition import (
        AlterPartitionRequest,
        AlterPartitionResponse,
    )

log = logging.getLogger(__name__)

RETRY_MS: Final = 50
MAX_RETRY_MS: Final = 1000

_Place = tuple[UUID, int]
_Waiting = tuple[IsrProposal, Completion[IsrAnswer]]


class NoAnswerError(Exception):
    """The controller cannot be asked now, or has not answered; the request may have been carried out."""


class AlterPartitionSender:
    """`IsrProposals` by requests to the controller.

    `call` sends one and returns its answer, or raises NoAnswerError; `broker_epoch` is that of this broker's
    registration, None while it has none. `run` does the work.
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
        self._pending: dict[_Place, _Waiting] = {}
        self._work = Signal()
        self._failures = 0

    def propose(self, key: PartitionKey, proposal: IsrProposal) -> Completion[IsrAnswer]:
        """See `IsrProposals.propose`. A proposal of a later epoch takes the place of one that waits."""
        place = (key.topic_id, key.index)
        before = self._pending.get(place)
        if before is not None and before[0].leader_epoch >= proposal.leader_epoch:
            return completed(ErrorCode.OPERATION_NOT_ATTEMPTED)
        answered: Completion[IsrAnswer] = Completion()
        self._pending[place] = proposal, answered
        if before is not None:
            before[1].settle(ErrorCode.FENCED_LEADER_EPOCH)
        self._work.wake()
        return answered

    async def run(self) -> None:
        """Send what is proposed, until cancelled."""
        while True:
            if not self._pending:
                await self._work.wait()
            elif await self._send(dict(self._pending)):
                self._failures = 0
            else:
                await trio.sleep(min(RETRY_MS << min(self._failures, 10), MAX_RETRY_MS) / 1000)
                self._failures += 1

    async def _send(self, sent: dict[_Place, _Waiting]) -> bool:
        """Send a request, and tell the proposers what the controller said; False when the next one has to wait.

        That is when it has said nothing, or something that makes a proposer repeat its proposal.
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
            log.info("AlterPartition refused error=%s", ErrorCode(response.error_code).name)
            return False
        answers = _answers(response)
        for place, waiting in sent.items():
            if self._pending.get(place) is waiting:  # else a later epoch has proposed meanwhile
                del self._pending[place]
                waiting[1].settle(answers.get(place, ErrorCode.UNKNOWN_SERVER_ERROR))
        return all(place in answers and _is_definite(answers[place]) for place in sent)


def _is_definite(answer: IsrAnswer) -> bool:
    return isinstance(answer, IsrDecision) or answer in REFUSED or answer in VIEW_IS_OLD


def _request(broker_id: int, broker_epoch: int, sent: dict[_Place, _Waiting]) -> "AlterPartitionRequest":
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


def _answers(response: "AlterPartitionResponse") -> dict[_Place, IsrAnswer]:
    answers: dict[_Place, IsrAnswer] = {}
    for topic in response.topics:
        for part in topic.partitions:
            error = ErrorCode(part.error_code)
            decision = IsrDecision(part.leader_epoch, part.isr, part.partition_epoch)
            answers[topic.topic_id, part.partition_index] = error or decision
    return answers
