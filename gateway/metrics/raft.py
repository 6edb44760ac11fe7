"""The metadata quorum as this node sees it: Kafka's raft metrics and those of its broker's image."""

import math
from collections.abc import Iterator

from prometheus_client.core import Metric

from odradek.coordinator.quorum.values import NO_NODE, State
from odradek.gateway.assembly import Services
from odradek.gateway.env.durations import RecentTimes
from odradek.gateway.env.signals import Signal
from odradek.gateway.metrics.families import gauge, gauges

_RAFT = "kafka_server_raftmetrics_"


class ElectionTimes:
    """The lengths of the periods in which this node knew no leader of the quorum."""

    def __init__(self, services: Services) -> None:
        self._quorum = services.quorum
        self._env = services.env
        self.times = RecentTimes()

    async def watch(self) -> None:
        """Measure the periods until cancelled."""
        changed = Signal()
        self._quorum.changes.watch(changed)
        without_since_us: int | None = None
        try:
            while True:
                now_us = self._env.monotonic_us()
                if self._quorum.leader_id == NO_NODE:
                    without_since_us = now_us if without_since_us is None else without_since_us
                elif without_since_us is not None:
                    self.times.add(now_us - without_since_us, now_us)
                    without_since_us = None
                await changed.wait()
        finally:
            self._quorum.changes.unwatch(changed)

    def average_and_longest_ms(self) -> tuple[float, float]:
        """See `RecentTimes`; may be called from any thread."""
        return self.times.average_and_longest_ms(self._env.monotonic_us())


def raft_metrics(services: Services, elections: ElectionTimes) -> Iterator[Metric]:
    """Leader, epoch, offsets and state; times of the last minute in milliseconds, NaN while there are none."""
    core = services.quorum.core
    yield gauge(f"{_RAFT}current_leader", "The leader of the metadata quorum, -1 while none is known.", core.leader_id)
    yield gauge(f"{_RAFT}current_epoch", "The quorum's epoch.", core.epoch)
    log = services.quorum.replica.open_log
    committed, end = (math.nan, math.nan) if log is None else (log.high_watermark, log.log_end_offset)
    yield gauge(f"{_RAFT}high_watermark", "Committed end of the metadata log.", committed)
    yield gauge(f"{_RAFT}log_end_offset", "End of this node's metadata log.", end)
    # Kafka calls a follower that is no voter, such as a node that is only a broker, an observer.
    state = "observer" if core.state is State.FOLLOWER and not core.is_voter else core.state.value
    doc = "1 for the state of this node."
    yield gauges(f"{_RAFT}current_state", doc, ("current_state",), [((state,), 1)])
    now_us = services.env.monotonic_us()
    for name, doc, (average_ms, longest_ms) in (
        ("commit_latency", "a decision's commit", services.controller.commit_times.average_and_longest_ms(now_us)),
        ("election_latency", "the time without a leader", elections.average_and_longest_ms()),
    ):
        yield gauge(f"{_RAFT}{name}_avg", f"Average of {doc} in milliseconds.", average_ms)
        yield gauge(f"{_RAFT}{name}_max", f"Longest of {doc} in milliseconds.", longest_ms)
    applied = "kafka_server_brokermetadatametrics_last_applied_record_offset"
    yield gauge(applied, "Offset of the last metadata record that this node acts on.", services.metadata.image.offset)
