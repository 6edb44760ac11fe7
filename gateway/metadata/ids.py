"""Ids of topics and clusters: random, and as Kafka writes them."""

import base64
import itertools
from collections.abc import Iterator
from uuid import UUID

from odradek.gateway.env.environment import Environment


def random_ids(env: Environment) -> Iterator[UUID]:
    """Random ids without end. Kafka gives none whose text begins with a hyphen, which looks like an option."""
    fresh = (env.uuid() for _ in itertools.count())
    return (each for each in fresh if not text_of(each).startswith("-"))


def text_of(value: UUID) -> str:
    """A UUID as Kafka writes it."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
