"""AlterPartition proposals: sent together, repeated until answered, at most one per partition."""

import logging
from uuid import UUID

import pytest
import trio

from odradek.gateway.replication.alter_partition import AlterPartitionSender, NoAnswerError
from odradek.gateway.replication.isr_changes import MAX_LINES, IsrChanges
from odradek.partitions.in_sync import IsrDecision, IsrMember, IsrProposal
from odradek.partitions.model import PartitionKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

UNKNOWN_CODE = 9999
KEYS = [PartitionKey("t", UUID(int=7), index) for index in range(3)]


def proposal(leader_epoch: int = 3) -> IsrProposal:
    return IsrProposal((IsrMember(1, 10), IsrMember(2, 20)), leader_epoch, 5)


class Controller:
    """Answers as the test sets: with an error for all, with one for each partition, or not at all."""

    def __init__(self) -> None:
        self.requests: list[AlterPartitionRequest] = []
        self.answers: list[int | None] = []
        self.open = trio.Event()
        self.error: int = ErrorCode.NONE

    async def call(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.requests.append(request)
        await self.open.wait()
        if self.answers:
            error = self.answers.pop(0)
            if error is None:
                raise NoAnswerError("gone")
            return AlterPartitionResponse(error_code=error)
        return AlterPartitionResponse(
            topics=tuple(
                AlterPartitionResponseTopicData(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        AlterPartitionResponsePartitionData(
                            partition_index=each.partition_index,
                            error_code=self.error,
                            leader_epoch=each.leader_epoch,
                            isr=(1, 2),
                            partition_epoch=each.partition_epoch + 1,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )


def indexes(request: AlterPartitionRequest) -> list[int]:
    return [each.partition_index for topic in request.topics for each in topic.partitions]


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
def sender(controller: Controller, nursery: trio.Nursery, autojump_clock: object) -> AlterPartitionSender:
    sender = AlterPartitionSender(1, lambda: 10, controller.call)
    nursery.start_soon(sender.run)
    return sender


async def test_what_is_proposed_during_a_request_goes_with_the_next(
    controller: Controller, sender: AlterPartitionSender
) -> None:
    first = sender.propose(KEYS[0], proposal())
    await trio.sleep(1)
    others = [sender.propose(key, proposal()) for key in KEYS[1:]]
    again = sender.propose(KEYS[0], proposal())
    assert again.result() is ErrorCode.OPERATION_NOT_ATTEMPTED
    controller.open.set()
    assert await first.wait() == IsrDecision(3, (1, 2), 6)
    assert [await each.wait() for each in others] == [IsrDecision(3, (1, 2), 6)] * 2
    assert [indexes(request) for request in controller.requests] == [[0], [1, 2]]
    asked = controller.requests[0].topics[0].partitions[0]
    assert [(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs] == [(1, 10), (2, 20)]
    assert (controller.requests[0].broker_epoch, asked.partition_epoch) == (10, 5)


async def test_without_an_answer_it_is_asked_again(controller: Controller, sender: AlterPartitionSender) -> None:
    controller.answers = [None, ErrorCode.STALE_BROKER_EPOCH, None]
    controller.open.set()
    assert await sender.propose(KEYS[0], proposal()).wait() == IsrDecision(3, (1, 2), 6)
    assert len(controller.requests) == 4


async def test_the_refusal_of_one_partition_is_its_answer(controller: Controller, sender: AlterPartitionSender) -> None:
    controller.error = ErrorCode.INELIGIBLE_REPLICA
    controller.open.set()
    assert await sender.propose(KEYS[0], proposal()).wait() is ErrorCode.INELIGIBLE_REPLICA


async def test_an_unknown_error_code_counts_as_unknown_server_error(
    controller: Controller, sender: AlterPartitionSender, caplog: pytest.LogCaptureFixture
) -> None:
    """A node of a later version may have further codes; the sender continues."""
    controller.answers = [UNKNOWN_CODE]
    controller.error = UNKNOWN_CODE
    controller.open.set()
    assert await sender.propose(KEYS[0], proposal()).wait() is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(controller.requests) == 2, "the first answer has a top-level error, after which it is sent again"
    assert "unknown error code in a response code=9999" in caplog.text
    controller.error = ErrorCode.NONE
    assert await sender.propose(KEYS[1], proposal()).wait() == IsrDecision(3, (1, 2), 6)


async def test_a_later_epoch_takes_the_place_of_what_waits(
    controller: Controller, sender: AlterPartitionSender
) -> None:
    before = sender.propose(KEYS[0], proposal())
    await trio.sleep(1)
    after = sender.propose(KEYS[0], proposal(leader_epoch=4))
    assert before.result() is ErrorCode.FENCED_LEADER_EPOCH
    controller.open.set()
    assert await after.wait() == IsrDecision(4, (1, 2), 6), "the answer to the request before is not its"


def test_many_proposals_at_once_are_logged_in_few_lines(caplog):
    caplog.set_level(logging.INFO)
    changes = IsrChanges()
    assert [changes.note("expand partition=%d", number) for number in range(MAX_LINES + 5)].count(True) == 1
    changes.report()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:2] == ["expand partition=0", "expand partition=1"]
    assert lines[-1] == "in-sync replicas change of further partitions count=5"
    assert len(lines) == MAX_LINES + 1
    assert changes.note("expand partition=%d", 1)
