"""Stray logs: logs in the store whose partitions have no replica on this broker in the metadata, for no known reason.

The broker renames stray logs and never deletes them. `take_back` restores those whose partitions are there again.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.env.environment import Environment
from odradek.partitions.model import PartitionKey
from odradek.storage_backends.interface import Store

log = logging.getLogger(__name__)

MAX_NAMES: Final = 10
"""The maximum number of logs listed in one log line."""


def knows(image: MetadataImage, key: PartitionKey, node_id: int) -> bool:
    """True if the partition is in the image, with a replica on this node."""
    topic = image.topic_by_id(key.topic_id)
    if topic is None or topic.name != key.topic or not 0 <= key.index < len(topic.partitions):
        return False
    return node_id in topic.partitions[key.index].replicas


def few(names: Sequence[str]) -> tuple[int, str, str]:
    """For log messages: the number of names, the first MAX_NAMES joined by commas, and ",..." if there are more."""
    return len(names), ",".join(names[:MAX_NAMES]), ",..." if len(names) > MAX_NAMES else ""


async def take_back(image: MetadataImage, store: Store, env: Environment, node_id: int) -> None:
    """Restore the stray logs of partitions that the image has, and log the remaining strays. Raises StoreError."""
    strays = await env.run_blocking(store.strays)
    if not strays:
        return
    left: list[str] = []
    present = set(await env.run_blocking(store.partitions))
    for stray in strays:
        if stray.key in present or not knows(image, stray.key, node_id):
            left.append(stray.name)
            continue
        await env.run_blocking(partial(store.take_back, stray.name))
        present.add(stray.key)
        log.warning("a log that was set aside is its partition's again name=%s", stray.name)
    if left:
        advice = "`odradek recover` shows and deletes them; in a cluster of one it can adopt them"
        log.warning("logs are set aside count=%d names=%s%s advice=%s", *few(left), advice)
