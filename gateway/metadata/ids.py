"""Random ids of topics and clusters, and their text form in Kafka."""

import base64
import itertools
from collections.abc import Iterator
from uuid import UUID

from odradek.gateway.env.environment import Environment


def random_ids(env: Environment) -> Iterator[UUID]:
    """An endless iterator of random ids. As in Kafka, no id's text begins with a hyphen, which looks like an option."""
    fresh = (env.uuid() for _ in itertools.count())
    return (each for each in fresh if not text_of(each).startswith("-"))


def text_of(value: UUID) -> str:
    """A UUID as Kafka writes it."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
