"""One member of the group: counts the delays of its partitions exactly, although members may be killed at any time.

A partition's totals and the offset up to which they hold are written as one record to the same partition of the state
topic. A member that gets a partition reads the last such record and seeks to its offset. Work that a killed member had
not yet written down is done again from there, into totals that do not contain it; so every flight counts once.
The group's committed offsets follow for tools that show lag; nothing depends on them.

`python -m examples.flights.member --bootstrap HOST:PORT --input TOPIC --state TOPIC --name NAME`, ended by SIGTERM.
"""

import argparse
import json
import signal
import time
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python's own, at import
    from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from examples.flights.totals import PartitionState

GROUP = "delay-report"
SESSION_TIMEOUT_MS = 6_000
CHECKPOINT_EVERY_S = 0.5
POLL_MS = 200


class StateTopic:
    """The last written state of each partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._reader = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        self._writer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=1)

    def load(self, partition: int) -> PartitionState:
        """Read the last state; for a partition without one, return an empty state at offset 0."""
        place = TopicPartition(self._topic, partition)
        end = self._reader.end_offsets([place])[place]
        if end == 0:
            return PartitionState()
        self._reader.assign([place])
        self._reader.seek(place, end - 1)
        while not (found := self._reader.poll(timeout_ms=1_000).get(place)):
            pass
        return PartitionState.decode(found[-1].value)

    def store(self, states: dict[int, PartitionState]) -> None:
        """Write states, one record a partition, and return when all are acknowledged."""
        sent = [
            self._writer.send(self._topic, key=str(partition).encode(), value=state.encode(), partition=partition)
            for partition, state in states.items()
        ]
        for future in sent:
            future.get(timeout=30)

    def close(self) -> None:
        """Close both clients."""
        self._writer.close()
        self._reader.close()


class Member:
    """Consumes the input topic as `name`, and has the states of its assigned partitions."""

    def __init__(self, bootstrap: str, topic: str, state_topic: str, name: str) -> None:
        self._topic = topic
        self._name = name
        self._store = StateTopic(bootstrap, state_topic)
        self._states: dict[int, PartitionState] = {}
        self._unwritten: set[int] = set()
        self._written_at_s = time.monotonic()
        self._stopping = False
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            client_id=name,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=500,
            max_poll_records=5_000,
        )

    def stop(self, *_signal: object) -> None:
        """End `run` after the current poll."""
        self._stopping = True

    def run(self) -> None:
        """Consume until `stop`; writes the last totals before it returns."""
        while not self._stopping:
            for place, records in self.consumer.poll(timeout_ms=POLL_MS).items():
                self.count(place, records)
            self._forget_lost_partitions()
            if time.monotonic() - self._written_at_s >= CHECKPOINT_EVERY_S:
                self.checkpoint()
        self.checkpoint()
        self.close()

    def close(self) -> None:
        """Leave the group and close all clients, without writing anything."""
        self.consumer.close(autocommit=False)
        self._store.close()

    def count(self, place: TopicPartition, records: list) -> None:
        """Count records that directly follow the partition's state; for others, seek to the offset where it ends."""
        state = self._states.get(place.partition)
        if state is None or state.next_offset != records[0].offset:
            state = self._states[place.partition] = self._store.load(place.partition)
        if state.next_offset != records[0].offset:
            self.consumer.seek(place, state.next_offset)
            return
        for record in records:
            flight = json.loads(record.value)
            state.totals.add(flight["carrier"], flight["arr_delay"])
        state.next_offset = records[-1].offset + 1
        self._unwritten.add(place.partition)

    def _forget_lost_partitions(self) -> None:
        owned = {place.partition for place in self.consumer.assignment()}
        self._states = {partition: state for partition, state in self._states.items() if partition in owned}
        self._unwritten &= owned

    def checkpoint(self) -> None:
        """Write the changed states, wait until they are acknowledged, then commit their offsets without waiting."""
        self._written_at_s = time.monotonic()
        if not self._unwritten:
            return
        states = {partition: self._states[partition] for partition in sorted(self._unwritten)}
        for state in states.values():
            state.by = self._name
        self._store.store(states)
        self._unwritten.clear()
        self.consumer.commit_async(
            {
                TopicPartition(self._topic, partition): OffsetAndMetadata(state.next_offset, "", -1)
                for partition, state in states.items()
            }
        )


def main() -> None:
    """Run one member."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "input", "state", "name"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    member = Member(options.bootstrap, options.input, options.state, options.name)
    signal.signal(signal.SIGTERM, member.stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the demo's main process handles Ctrl-C
    member.run()


if __name__ == "__main__":
    main()
