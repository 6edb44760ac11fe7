"""Follows the state topic: the progress of the group, and the member that counts each partition."""

import threading
import warnings
from collections.abc import Callable

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, at import
    from kafka import KafkaConsumer, TopicPartition

from examples.flights.totals import PartitionState, Totals


class Watcher:
    """Reads the state topic in a thread, and keeps the state of each partition with the highest offset.

    `moved(partition, before, after, offset)` is called, in that thread, when another member continues a partition.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, moved: Callable[[int, str, str, int], None]
    ) -> None:
        self._bootstrap = bootstrap
        self._places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._moved = moved
        self._states: dict[int, PartitionState] = {}
        self._changed = threading.Condition(threading.RLock())
        self._stopping = False
        self._thread = threading.Thread(target=self._follow, name="watcher", daemon=True)
        self._thread.start()

    @property
    def counted(self) -> int:
        """The number of flights in all written states."""
        with self._changed:
            return sum(state.totals.flights for state in self._states.values())

    @property
    def totals(self) -> Totals:
        """The group's totals so far."""
        totals = Totals()
        with self._changed:
            for state in self._states.values():
                totals.merge(state.totals)
        return totals

    def partitions_of(self, name: str) -> list[int]:
        """The partitions whose last state was written by `name`."""
        with self._changed:
            return sorted(partition for partition, state in self._states.items() if state.by == name)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `condition` is true, checking after each change; returns False on timeout."""
        with self._changed:
            return self._changed.wait_for(condition, timeout_s)

    def close(self) -> None:
        """Stop following."""
        self._stopping = True
        self._thread.join()

    def _follow(self) -> None:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, enable_auto_commit=False)
        consumer.assign(self._places)
        consumer.seek_to_beginning()
        while not self._stopping:
            for place, records in consumer.poll(timeout_ms=100).items():
                for record in records:
                    self._take(place.partition, PartitionState.decode(record.value))
        consumer.close()

    def _take(self, partition: int, state: PartitionState) -> None:
        with self._changed:
            before = self._states.get(partition)
            if before is not None and state.next_offset < before.next_offset:
                return
            if before is not None and before.by != state.by:
                self._moved(partition, before.by, state.by, before.next_offset)
            self._states[partition] = state
            self._changed.notify_all()
