"""Matches topics' names against consumers' regular expressions, in worker threads, once for each metadata version.

An expression comes from a client and may take half a second over all names. A heartbeat with a new one waits until it
is matched before the shard decides. One that must be matched again, since topics were created or deleted, is matched in
the background, and the shard repeats its request (`coordinator/groups/consumer/regexes.py`).
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import trio

from odradek.coordinator.metadata.image.image import MetadataImage, TopicImage
from odradek.gateway.env.side_work import SideWork

MAX_KEPT: Final = 100
"""The number of most recently used expressions whose results are cached; a result may list all topics."""

_Topics = Mapping[str, TopicImage]
_Result = frozenset[str] | ValueError


class TopicRegexes:
    """A `RegexResolver` that matches in the threads of `work`, which all matching for clients shares.

    `image` returns the published metadata.
    """

    def __init__(self, image: Callable[[], MetadataImage], work: SideWork, nursery: trio.Nursery) -> None:
        self._image = image
        self.work = work
        self._nursery = nursery
        self._known: OrderedDict[str, tuple[_Topics, _Result]] = OrderedDict()
        self._under_way: set[str] = set()

    async def prepare(self, regex: str) -> None:
        """Return when the expression is matched against the current topics; an invalid expression raises nothing.

        If the caller is cancelled before a thread begins to match, the expression remains unmatched.
        """
        image = self._image()
        if self._kept(regex, image) is None:
            self._keep(regex, image, await self.work.run(lambda: _match(regex, image)))

    def check(self, regex: str) -> None:
        """See `RegexResolver.check`."""
        from odradek.coordinator.regex import Matcher

        known = self._known.get(regex)
        if known is None:
            Matcher(regex)
        elif isinstance(known[1], ValueError):
            raise known[1]

    def topics(self, regex: str, image: MetadataImage) -> frozenset[str] | None:
        """See `RegexResolver.topics`."""
        result = self._kept(regex, image)
        if isinstance(result, ValueError):
            raise result
        if result is None and regex not in self._under_way:
            self._under_way.add(regex)
            self._nursery.start_soon(self._prepare_again, regex)
        return result

    async def _prepare_again(self, regex: str) -> None:
        try:
            await self.prepare(regex)
        finally:
            self._under_way.discard(regex)

    def _kept(self, regex: str, image: MetadataImage) -> _Result | None:
        topics, result = self._known.get(regex, (None, None))
        if topics is not image.topics_by_name:
            return None
        self._known.move_to_end(regex)
        return result

    def _keep(self, regex: str, image: MetadataImage, result: _Result) -> None:
        self._known[regex] = (image.topics_by_name, result)
        self._known.move_to_end(regex)
        if len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)


def _match(regex: str, image: MetadataImage) -> _Result:
    from odradek.coordinator.groups.consumer.resolver import matching_topics
    from odradek.coordinator.regex import InvalidRegex

    try:
        return matching_topics(regex, image)
    except InvalidRegex as error:
        return error
