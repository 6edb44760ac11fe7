"""DeleteTopics: by name, or from version 6 on by id, each topic at most once in a request."""

from collections import Counter
from collections.abc import Hashable, Iterable, Set
from typing import Final, TypeVar
from uuid import UUID

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.wire.schema.schema import Message
from odradek.wire.schema.types import ZERO_UUID
from odradek.wire.stored.metadata_records import RemoveTopicRecord

T = TypeVar("T", bound=Hashable)

DISABLED_CODE_SINCE: Final = 3
"""The first version with the error code TOPIC_DELETION_DISABLED."""


def delete_topics(
    context: DecisionContext, request: DeleteTopicsRequest, api_version: int
) -> tuple[list[Message], DeleteTopicsResponse]:
    """Decide on all topics of a request, each independently."""
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    if not context.flag("delete.topic.enable"):
        return [], DeleteTopicsResponse(responses=tuple(_disabled(topic, api_version) for topic in asked))
    deletion = _Deletion(context.image)
    deletion.decide(asked)
    return deletion.records, DeleteTopicsResponse(responses=tuple(deletion.results))


def _disabled(topic: DeleteTopicState, api_version: int) -> DeletableTopicResult:
    code = ErrorCode.TOPIC_DELETION_DISABLED if api_version >= DISABLED_CODE_SINCE else ErrorCode.INVALID_REQUEST
    message = "Topic deletion is disabled (delete.topic.enable=false)."
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)


class _Deletion:
    """The records and results of one request, in the order of Kafka's checks."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self.records: list[Message] = []
        self.results: list[DeletableTopicResult] = []

    def decide(self, asked: Iterable[DeleteTopicState]) -> None:
        """Refuse entries that are malformed or repeated, then delete the other topics."""
        names: list[str] = []
        ids: list[UUID] = []
        for topic in asked:
            if topic.name is None and topic.topic_id == ZERO_UUID:
                self._refuse(None, ZERO_UUID, "Neither topic name nor id were specified.")
            elif topic.name is not None and topic.topic_id != ZERO_UUID:
                self._refuse(topic.name, topic.topic_id, "You may not specify both topic name and topic id.")
            elif topic.name is not None:
                names.append(topic.name)
            else:
                ids.append(topic.topic_id)
        for name in _twice(names):
            self._refuse(name, ZERO_UUID, "Duplicate topic name.")
        for topic_id in _twice(ids):
            self._refuse(None, topic_id, "Duplicate topic id.")
        self._delete(_once(names), _once(ids), frozenset(_twice(ids)))

    def _delete(self, names: list[str], ids: list[UUID], duplicate_ids: Set[UUID]) -> None:
        chosen: dict[UUID, str] = {}
        for topic_id in ids:
            topic = self._image.topic_by_id(topic_id)
            if topic is None:
                self._answer(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID.message)
            else:
                chosen[topic_id] = topic.name
        for name in names:
            self._choose_name(name, chosen, duplicate_ids)
        for topic_id, name in chosen.items():
            self.records.append(RemoveTopicRecord(topic_id=topic_id))
            self._answer(name, topic_id, ErrorCode.NONE, None)

    def _choose_name(self, name: str, chosen: dict[UUID, str], duplicate_ids: Set[UUID]) -> None:
        topic = self._image.topic(name)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self._answer(name, ZERO_UUID, error, error.message)
        elif topic.topic_id in chosen or topic.topic_id in duplicate_ids:
            chosen.pop(topic.topic_id, None)
            self._refuse(name, topic.topic_id, "The provided topic name maps to an ID that was already supplied.")
        else:
            chosen[topic.topic_id] = name

    def _refuse(self, name: str | None, topic_id: UUID, message: str) -> None:
        self._answer(name, topic_id, ErrorCode.INVALID_REQUEST, message)

    def _answer(self, name: str | None, topic_id: UUID, error: ErrorCode, message: str | None) -> None:
        self.results.append(DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=message))


def _once(items: list[T]) -> list[T]:
    times = Counter(items)
    return [item for item in items if times[item] == 1]


def _twice(items: list[T]) -> list[T]:
    return [item for item, times in Counter(items).items() if times > 1]
