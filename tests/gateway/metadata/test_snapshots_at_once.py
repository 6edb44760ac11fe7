"""A snapshot is written while another is downloaded: neither removes the other's files as leftovers of a crash."""

from collections.abc import Callable
from typing import Any

import pytest
import trio

from odradek.coordinator.metadata.image.checkpoint import snapshot_batches
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.coordinator.quorum.values import SnapshotId
from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.quorum.snapshots import Snapshots
from odradek.partitions.metadata_log import snapshot_key
from odradek.storage_backends.memory import MemoryStore
from odradek.storage_backends.memory.medium import MemoryMedium

OTHER = SnapshotId(9, 0)


class SlowCalls(ProductionEnvironment):
    """The first blocking call takes effect after many turns of the other tasks, each later one after one turn."""

    turns = 30

    async def run_blocking(self, call: Callable[[], Any]) -> Any:
        turns, self.turns = self.turns, 1
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
        return call()


@pytest.mark.parametrize("later", [1, 5, 25, 29])
def test_a_download_that_begins_while_a_snapshot_is_begun_stays(later: int):
    async def main() -> None:
        store, env = MemoryStore(MemoryMedium()), SlowCalls()
        snapshots = Snapshots(store, env)
        data = b"".join(snapshot_batches(MetadataImage(offset=8), 0))

        async def download() -> None:
            for _ in range(later):
                await trio.lowlevel.checkpoint()
            assert await snapshots.stage(OTHER, 0, data, len(data))
            await snapshots.keep_staged(OTHER)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(snapshots.write, MetadataImage(offset=4), 0)
            nursery.start_soon(download)
        assert set(snapshots.known) == {SnapshotId(5, 0), OTHER}
        assert {snapshot_key(*each) for each in snapshots.known} <= set(store.partitions())

    trio.run(main)
