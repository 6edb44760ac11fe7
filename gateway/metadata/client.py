"""Requests of a broker's services to the active controller, on this node or another: topics, producer ids."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import trio

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import CoordinatorUnavailable, received_error
from odradek.gateway.metadata.active import Leadership
from odradek.gateway.metadata.channel import ControllerChannel, ControllerUnreachableError
from odradek.gateway.metadata.controller import Controller
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.schema import Message

if TYPE_CHECKING:  # imported with the first decision on topics or producer ids, so that a broker starts faster
    from odradek.coordinator.metadata.controller.producer_ids import ProducerIdBlock
    from odradek.wire.messages.create_topics import CreatableTopic

CREATE_TOPICS_VERSION: Final = 7
ALLOCATE_VERSION: Final = 0
PUBLISH_WAIT_MS: Final = 1000
"""The wait for a created topic ends when this node's image has not changed for this time; the client then retries."""


class ControllerClient:
    """The active controller as services of this broker use it.

    All methods raise CoordinatorUnavailable while no controller decides. `context()` returns this broker's image and
    settings, for decisions about topics. `request.timeout.ms` limits the wait for a response.
    """

    def __init__(
        self,
        controller: Controller,
        leadership: Leadership,
        channel: ControllerChannel,
        metadata: MetadataPublisher,
        context: Callable[[], DecisionContext],
    ) -> None:
        self._controller = controller
        self._leadership = leadership
        self._channel = channel
        self._metadata = metadata
        self._context = context

    async def auto_create(self, names: Collection[str]) -> Mapping[str, RefusedError | None]:
        """Create the topics of these names that do not exist; None for a name whose topic exists now."""
        if self._leadership.is_active:
            return await self._controller.auto_create(names)
        from odradek.coordinator.metadata.controller.auto_create import wanted_topic
        from odradek.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

        context = self._context()
        topics = [_with_defaults(context, wanted_topic(context, name)) for name in dict.fromkeys(names)]
        request = CreateTopicsRequest(topics=tuple(topics), timeout_ms=context.number("request.timeout.ms"))
        response = await self._call(request, CREATE_TOPICS_VERSION)
        assert isinstance(response, CreateTopicsResponse)
        codes = {each.name: (received_error(each.error_code), each.error_message) for each in response.topics}
        existing = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        await self._published([name for name, (code, _) in codes.items() if code in existing])
        return {
            name: None if code in existing else RefusedError(code, message or code.message)
            for name, (code, message) in codes.items()
        }

    async def producer_id_block(self) -> "ProducerIdBlock":
        """Producer ids that were never allocated before and will not be allocated again."""
        from odradek.coordinator.metadata.controller.producer_ids import (
            PRODUCER_ID_BLOCK,
            ProducerIdBlock,
            allocate_producer_ids,
        )

        if self._leadership.is_active:
            return await self._controller.decide(allocate_producer_ids, PRODUCER_ID_BLOCK)
        from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

        context = self._context()
        own = context.image.brokers.get(context.node_id)
        request = AllocateProducerIdsRequest(broker_id=context.node_id, broker_epoch=-1 if own is None else own.epoch)
        response = await self._call(request, ALLOCATE_VERSION)
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code:
            raise CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return ProducerIdBlock(response.producer_id_start, response.producer_id_len)

    async def reserve_producer_ids(self, producer_id: int) -> int:
        """Reserve all ids up to `producer_id`; returns the smallest free one. Works only on the active controller."""
        from odradek.coordinator.metadata.controller.producer_ids import reserve_producer_ids

        return await self._controller.decide(reserve_producer_ids, producer_id)

    async def _call(self, request: Message, version: int) -> Message:
        timeout_ms = self._context().number("request.timeout.ms")
        try:
            return await self._channel.call(request, version, timeout_ms)
        except ControllerUnreachableError as error:
            raise CoordinatorUnavailable(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    async def _published(self, names: Collection[str]) -> None:
        """Wait until the topics are in this node's image, or until it has not changed for `PUBLISH_WAIT_MS`.

        A topic may have been deleted again, so the wait never exceeds `request.timeout.ms`.
        """
        changed = Signal()
        self._metadata.changes.watch(changed)
        try:
            with trio.move_on_after(self._context().number("request.timeout.ms") / 1000):
                while any(self._metadata.image.topic(name) is None for name in names):
                    if not await changed.wait(PUBLISH_WAIT_MS):
                        return
        finally:
            self._metadata.changes.unwatch(changed)


def _with_defaults(context: DecisionContext, topic: "CreatableTopic") -> "CreatableTopic":
    """The topic, with this broker's defaults for values that it does not set: the controller's may differ."""
    count, factor = topic.num_partitions, topic.replication_factor
    return replace(
        topic,
        num_partitions=context.number("num.partitions") if count == -1 else count,
        replication_factor=context.number("default.replication.factor") if factor == -1 else factor,
    )
