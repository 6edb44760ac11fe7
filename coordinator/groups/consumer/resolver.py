"""The interface for matching topic names, which may take long: a broker does it in a worker thread."""

from typing import Final, Protocol

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.regex import Matcher


class RegexResolver(Protocol):
    """Checks and matches the regular expressions of the consumer groups of a shard."""

    def check(self, regex: str) -> None:
        """Raise InvalidRegex for an expression that is not valid, or takes too much work over the existing topics."""
        ...

    def topics(self, regex: str, image: MetadataImage) -> frozenset[str] | None:
        """Returns the matching topics; None while a worker thread computes them: call again. Raises InvalidRegex."""
        ...


class ResolverAtOnce:
    """Matches synchronously, within the call."""

    def check(self, regex: str) -> None:
        """See `RegexResolver.check`."""
        Matcher(regex)

    def topics(self, regex: str, image: MetadataImage) -> frozenset[str] | None:
        """See `RegexResolver.topics`."""
        return matching_topics(regex, image)


AT_ONCE: Final = ResolverAtOnce()


def matching_topics(regex: str, image: MetadataImage) -> frozenset[str]:
    """Returns the names in the image that the expression matches as a whole. Raises InvalidRegex."""
    matcher = Matcher(regex)
    return frozenset(name for name in image.topics_by_name if matcher.matches(name))
