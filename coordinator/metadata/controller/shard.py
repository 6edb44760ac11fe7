"""The metadata shard: operations decide and return records, and only replay changes the image.

An operation is a function `(context, request) -> (records, response)` of one of the modules in this folder; it returns
errors in its response and raises nothing for input of a client.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar
from uuid import UUID

from odradek.coordinator.contract import Outcome, Reply, ShardRecord, Token
from odradek.coordinator.metadata.controller.housekeeping import Housekeeping
from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.image.records import from_shard_record, to_shard_records
from odradek.coordinator.metadata.image.replay import replay
from odradek.coordinator.metadata.sessions import BrokerSessions
from odradek.coordinator.metadata.settings import CurrentLayers, DecisionContext, MetadataConfig
from odradek.wire.schema.schema import Message

Q = TypeVar("Q")
R = TypeVar("R")

Operation = Callable[[DecisionContext, Q], tuple[list[Message], R]]
"""Decides on a request: returns the records to write, and the response to send once they are committed."""


class MetadataShard:
    """The cluster's metadata; implements `odradek.coordinator.contract.Shard`.

    It starts from `image`, and skips records that the image includes. `topic_ids` yields random ids for new topics.
    `on_time` fences brokers whose sessions have expired and elects leaders at intervals; with a single broker that
    sends no heartbeats it changes nothing.
    """

    def __init__(self, config: MetadataConfig, topic_ids: Iterator[UUID], image: MetadataImage | None = None) -> None:
        self._config = config
        self._topic_ids = topic_ids
        self._delta = MetadataDelta(image)
        self._layers = CurrentLayers(config)
        self._sessions = BrokerSessions(None if config.fences_itself else config.node_id)
        self._housekeeping = Housekeeping()

    # Called by the runtime

    @property
    def image(self) -> MetadataImage:
        """The image after all records replayed so far, committed or not."""
        return self._delta.apply()

    def take_delta(self) -> MetadataDelta:
        """Returns the changes since the last call, or since the start. Publish it once they are committed."""
        taken, self._delta = self._delta, MetadataDelta(self._delta.apply())
        return taken

    def replay(self, record: ShardRecord, offset: int, epoch: int, now_ms: int) -> None:
        """Apply one record. Raises ProtocolError for one of a newer version, after which the node must not continue."""
        if offset <= self._delta.offset:
            return
        message = from_shard_record(record)
        if message is None:
            self._delta.advance(offset, epoch)
        else:
            replay(self._delta, message, offset, epoch)

    def replay_end(self, producer_id: int, committed: bool, now_ms: int) -> None:
        """Do nothing: metadata has no transactions."""

    def on_loaded(self, now_ms: int) -> Outcome:
        """The controller is active from now on: the sessions of all unfenced brokers begin."""
        self._housekeeping.begin(self.decision_context(now_ms=now_ms))
        return Outcome()

    def next_deadline_ms(self) -> int | None:
        """Returns when a session or an interval ends; 0 when an action is due at once."""
        return self._housekeeping.due_ms(self.decision_context())

    def on_time(self, now_ms: int) -> Sequence[Outcome]:
        """Do the first action that is due; the rest stays due."""
        context = self.decision_context(self.image.offset + 1, now_ms)
        return (Outcome(to_shard_records(self._housekeeping.run(context))),)

    def on_refused(self, about: str, now_ms: int) -> None:
        """Do nothing: decisions change no soft state."""

    def forget(self, token: Token) -> None:
        """Do nothing: no request is held."""

    # Decisions

    def decision_context(self, next_offset: int = -1, now_ms: int = 0) -> DecisionContext:
        """Returns the context of decisions at `now_ms`; their first record is written at `next_offset`."""
        image = self.image
        return DecisionContext(
            image,
            self._layers.under(image),
            self._config.node_id,
            next_offset=next_offset,
            topic_ids=self._topic_ids,
            now_ms=now_ms,
            sessions=self._sessions,
        )

    def decide(self, operation: Operation[Q, Any], request: Q, next_offset: int, token: Token, now_ms: int) -> Outcome:
        """Run an operation; its response is the reply."""
        records, response = operation(self.decision_context(next_offset, now_ms), request)
        return Outcome(to_shard_records(records), [Reply(token, response)])
