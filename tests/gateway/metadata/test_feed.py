"""The image of a node has caught up when it has all that the leader has committed."""

from trio.testing import wait_all_tasks_blocked

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.replay import CLUSTER_ID, CLUSTER_RESOURCE, replay
from odradek.gateway.env.signals import Watchable
from odradek.gateway.metadata.feed import MetadataFeed
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.wire.stored.metadata_records import ConfigRecord


class Core:
    """A follower whose log is as long as the leader's."""

    is_caught_up = True
    high_watermark = 2


class Quorum:
    """A quorum that another node leads."""

    active_epoch = None

    def __init__(self) -> None:
        self.changes = Watchable()
        self.core = Core()


class Controller:
    """The controller of a node that is not active."""

    epoch = None


class Reader:
    """Reads one record at a time, as if the others had been committed after it began to read."""

    def __init__(self, publisher: MetadataPublisher) -> None:
        self._publisher = publisher

    @property
    def next_offset(self) -> int:
        return self._publisher.logged.offset + 1

    async def read(self) -> None:
        delta = MetadataDelta(self._publisher.logged)
        record = ConfigRecord(resource_type=CLUSTER_RESOURCE, resource_name="", name=CLUSTER_ID, value="c")
        replay(delta, record, self.next_offset, 1)
        self._publisher.publish(delta)


async def test_records_that_were_committed_while_the_log_was_read_are_waited_for(nursery):
    quorum, publisher = Quorum(), MetadataPublisher()
    reader = Reader(publisher)
    feed = MetadataFeed(quorum, Controller(), publisher, reader, lambda: "c")
    nursery.start_soon(feed.run)
    await wait_all_tasks_blocked()
    assert reader.next_offset == 1
    assert not feed.caught_up.is_set()
    quorum.changes.notify()
    await wait_all_tasks_blocked()
    assert reader.next_offset == 2
    assert feed.caught_up.is_set()
