"""Who matches the topics' names against an expression: it may take long, so a broker does it beside its event loop."""

from typing import Final, Protocol

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.regex import Matcher


class RegexResolver(Protocol):
    """What the consumer groups of a shard ask about expressions."""

    def check(self, regex: str) -> None:
        """Raise InvalidRegex for what is none, or takes too much work over the topics that there are."""
        ...

    def topics(self, regex: str, image: MetadataImage) -> frozenset[str] | None:
        """The topics that match, or None while that is being found out: ask again. Raises InvalidRegex."""
        ...


class ResolverAtOnce:
    """Matches when it is asked."""

    def check(self, regex: str) -> None:
        """See `RegexResolver.check`."""
        Matcher(regex)

    def topics(self, regex: str, image: MetadataImage) -> frozenset[str] | None:
        """See `RegexResolver.topics`."""
        return matching_topics(regex, image)


AT_ONCE: Final = ResolverAtOnce()


def matching_topics(regex: str, image: MetadataImage) -> frozenset[str]:
    """The names in the image that the expression matches as a whole. Raises InvalidRegex."""
    matcher = Matcher(regex)
    return frozenset(name for name in image.topics_by_name if matcher.matches(name))
