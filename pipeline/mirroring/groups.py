"""Copies consumer groups' committed offsets, unchanged or translated by the offset map, with their metadata.

An offset is never moved back, and never beyond the copied records: at the target a group continues at its next record,
or reads some records again. Groups with members at the target are skipped, since they commit their own offsets.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.topic_partition import Offsets, TopicPartition
from odradek.pipeline.wire_client import BrokerError
from odradek.pipeline.wire_groups import WITHOUT_MEMBERS, WireGroups
from odradek.wire.errors import ErrorCode

Translate = Callable[[TopicPartition, int], int | None]
"""Returns the target's offset for a committed offset of the source, None if there is none."""

OWN: Final = "odradek-mirror"
"""The prefix of the names of mirrors' own groups."""
_HAS_MEMBERS: Final = "it has members at the target"
_OF_MEMBERS: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class Groups:
    """The groups whose full names match `pattern`. Raises PipelineError for an invalid regular expression."""

    def __init__(self, source: WireGroups, target: WireGroups, pattern: str) -> None:
        try:
            self._wanted = re.compile(pattern)
        except re.error as error:
            raise PipelineError(f"--groups {pattern!r} is no regular expression: {error}") from error
        self._source, self._target = source, target
        self.moved: dict[str, Offsets] = {}
        """The offsets committed at the target, by group."""
        self.left_alone: dict[str, str] = {}
        """Groups that were not copied, with the reason."""

    def copy(self, translate: Translate) -> None:
        """Copy the groups' current committed offsets. Raises PipelineError."""
        self.left_alone.clear()
        there = self._target.states()
        for name in sorted(self._source.states()):
            if not self._wanted.fullmatch(name) or name.startswith(OWN):
                continue
            if there.get(name, "Dead") not in WITHOUT_MEMBERS:
                self.left_alone[name] = _HAS_MEMBERS
            else:
                self._copy(name, translate)

    def _copy(self, name: str, translate: Translate) -> None:
        present, ahead = self._target.committed(name), Offsets()
        there = self._source.committed_whole(name)
        for place, one in there.items():
            translated = translate(place, one.offset)
            if translated is not None and translated > present.get(place, -1):
                ahead[place] = translated
        try:
            self._target.commit(name, ahead, {place: there[place].metadata for place in ahead})
        except BrokerError as error:
            if error.code not in _OF_MEMBERS:
                raise
            self.left_alone[name] = _HAS_MEMBERS
            return
        if ahead:
            self.moved.setdefault(name, {}).update(ahead)


def as_json(moved: Mapping[str, Offsets]) -> dict[str, list[dict[str, Any]]]:
    """Return the committed offsets as plain values."""
    return {
        group: [
            {"topic": place.topic, "partition": place.partition, "offset": offset}
            for place, offset in sorted(offsets.items())
        ]
        for group, offsets in moved.items()
    }
