"""Requests of a broker's services to a controller on another node, and the wait for this node's metadata."""

from types import SimpleNamespace

import trio

from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.gateway.config import load_config
from odradek.gateway.env.signals import Watchable
from odradek.gateway.metadata.client import PUBLISH_WAIT_MS, ControllerClient
from odradek.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse

TIMEOUT_MS = 5 * PUBLISH_WAIT_MS


class Channel:
    """A controller that creates each topic."""

    async def call(self, request, _version, _timeout_ms):
        return CreateTopicsResponse(topics=tuple(CreatableTopicResult(name=each.name) for each in request.topics))


def client_of(metadata):
    layers = load_config(overrides={"request.timeout.ms": str(TIMEOUT_MS)}, environ={}).layers
    leadership = SimpleNamespace(is_active=False)
    return ControllerClient(
        None, leadership, Channel(), metadata, lambda: DecisionContext(metadata.image, layers, node_id=1)
    )


async def test_the_wait_for_a_created_topic_ends_when_the_image_does_not_change(autojump_clock):
    metadata = SimpleNamespace(image=MetadataImage(), changes=Watchable())
    begun = trio.current_time()
    assert await client_of(metadata).auto_create(["t"]) == {"t": None}
    assert trio.current_time() - begun == PUBLISH_WAIT_MS / 1000
    assert not metadata.changes.watchers


async def test_it_ends_after_the_request_time_out_while_other_metadata_changes(autojump_clock, nursery):
    """The topic may have been deleted before this node's image had it."""
    metadata = SimpleNamespace(image=MetadataImage(), changes=Watchable())

    async def change():
        while True:
            await trio.sleep(PUBLISH_WAIT_MS / 2000)
            metadata.changes.notify()

    nursery.start_soon(change)
    begun = trio.current_time()
    assert await client_of(metadata).auto_create(["t"]) == {"t": None}
    assert trio.current_time() - begun == TIMEOUT_MS / 1000
    assert not metadata.changes.watchers
