"""A consumer of the demo, as a process: it counts the flights of the partitions that the group gives it.

The totals of a partition are the metadata of its committed offset. Both are stored in one record, so they always match:
the consumer that gets the partition after a crash continues where the count ended.

`python -m odradek.pipeline.demo.member --bootstrap HOST:PORT --topic TOPIC --group GROUP --name NAME`
"""

import argparse
import json
import os
import time
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

from odradek.gateway.cli.signals import stop_noticed, stop_when_stdin_ends
from odradek.pipeline.connection import Connection
from odradek.pipeline.demo.flights import Totals
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import BrokerError, WireClient, check
from odradek.pipeline.wire_groups import WireGroups
from odradek.pipeline.wire_socket import ConnectionLostError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.reader import read_records

REBALANCE_TIMEOUT_MS: Final = 10_000
FETCH_BYTES: Final = 64 * 1024
FETCH_WAIT_MS: Final = 200
RETRY_S: Final = 0.2
JOINING, LEAVING = 0, -1
"""Member epochs with a meaning of their own."""
_EXPELLED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class State(NamedTuple):
    """The counting of one partition: the next offset, the totals before it, and the consumer that counted last."""

    next_offset: int
    totals: Totals
    by: str = ""

    def metadata(self) -> str:
        """The metadata of the committed offset."""
        return json.dumps({"by": self.by, "counts": self.totals.counts}, separators=(",", ":"))

    @classmethod
    def of(cls, offset: int, metadata: str) -> "State":
        """The state of a committed offset with its metadata."""
        found = cast("dict[str, Any]", json.loads(metadata))
        return cls(offset, Totals(found["counts"]), str(found["by"]))


def records_of(data: memoryview, first: int) -> Iterable[tuple[int, bytes]]:
    """The offsets, from `first` on, and values of the records in whole batches; the last batch may be incomplete."""
    for header in iter_headers(data, allow_partial_tail=True):
        for record in read_records(data[header.position : header.end_position]):
            if record.offset >= first and record.value is not None:
                yield record.offset, bytes(record.value)


class Member:
    """One member of a group of the new protocol (KIP-848). For one thread."""

    def __init__(self, client: WireClient, topic: str, group: str, name: str) -> None:
        self._client = client
        self._groups = WireGroups(client)
        self._topic, self._group, self._name = topic, group, name
        self._id = f"{name}-{os.getpid()}"
        self._epoch = JOINING
        self._states: dict[int, State] = {}
        self._committed: dict[int, int] = {}
        self._assigned: set[int] = set()
        self._heartbeat_due_s = 0.0

    def step(self) -> None:
        """Send a heartbeat if it is time, read what is there, count it, and commit. Raises PipelineError."""
        if time.monotonic() >= self._heartbeat_due_s:
            self._heartbeat()
        if self._assigned != self._states.keys():
            self._take_over()
        if self._states:
            self._read()
            self._commit()
        else:
            time.sleep(FETCH_WAIT_MS / 1000)

    def leave(self) -> None:
        """Commit, and give the partitions back to the group."""
        self._commit()
        self._epoch = LEAVING
        self._send()

    def _read(self) -> None:
        positions = {TopicPartition(self._topic, index): state.next_offset for index, state in self._states.items()}
        found = self._client.fetch(
            positions,
            max_bytes=len(positions) * FETCH_BYTES,
            partition_max_bytes=FETCH_BYTES,
            max_wait_ms=FETCH_WAIT_MS,
        )
        for place, fetched in found.items():
            check(fetched.error, f"reading {place.topic}-{place.partition}")
            self._count(place.partition, fetched.records)

    def _count(self, index: int, data: memoryview) -> None:
        next_offset, totals, _ = self._states[index]
        for offset, value in records_of(data, next_offset):
            totals.add(value)
            next_offset = offset + 1
        self._states[index] = State(next_offset, totals, self._name)

    def _commit(self) -> None:
        """Commit what was counted since the last commit. What another member owns by now is refused, and dropped."""
        changed = {
            index: state for index, state in self._states.items() if state.next_offset > self._committed.get(index, 0)
        }
        if not changed:
            return
        parts = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=state.next_offset, committed_metadata=state.metadata()
            )
            for index, state in changed.items()
        ]
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self._epoch,
            member_id=self._id,
            topics=(OffsetCommitRequestTopic(name=self._topic, partitions=tuple(parts)),),
        )
        answer = self._client.request(request, OffsetCommitResponse, self._groups.coordinator(self._group))
        for topic in answer.topics:
            for part in topic.partitions:
                self._check(part.error_code, f"the commit for {topic.name}-{part.partition_index}")
                self._committed[part.partition_index] = changed[part.partition_index].next_offset

    def _heartbeat(self) -> None:
        """Tell the coordinator that this member is alive, and get the partitions that it shall have."""
        answer = self._send()
        self._check(answer.error_code, f"the heartbeat of {self._name}")
        self._epoch = answer.member_epoch
        self._heartbeat_due_s = time.monotonic() + answer.heartbeat_interval_ms / 1000
        if answer.assignment is not None:
            self._assigned = {index for part in answer.assignment.topic_partitions for index in part.partitions}

    def _send(self) -> ConsumerGroupHeartbeatResponse:
        """Send all fields each time: the coordinator then repeats the assignment, which a lost connection may lose."""
        owned: tuple[TopicPartitions, ...] = ()
        if self._states:
            topic_id = self._client.topic(self._topic).topic_id
            owned = (TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(self._states))),)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=(self._topic,),
            topic_partitions=owned,
        )
        return self._client.request(request, ConsumerGroupHeartbeatResponse, self._groups.coordinator(self._group))

    def _take_over(self) -> None:
        """Give back and take partitions; the next heartbeat, at once, tells the coordinator."""
        self._commit()  # before another member gets what is given back
        committed = self._groups.committed_whole(self._group)
        for index in self._states.keys() - self._assigned:
            del self._states[index]
        for index in self._assigned - self._states.keys():
            found = committed.get(TopicPartition(self._topic, index))
            state = State(0, Totals(), self._name) if found is None else State.of(found.offset, found.metadata)
            self._states[index] = state
            self._committed[index] = state.next_offset
        self._heartbeat_due_s = 0.0

    def _check(self, code: int, what: str) -> None:
        """Raise BrokerError for an error. A member that was expelled joins again, and forgets what it had counted."""
        if code in _EXPELLED:
            self._epoch = JOINING
            self._states.clear()
            self._committed.clear()
            self._assigned.clear()
            self._heartbeat_due_s = 0.0
        check(code, what)


def main() -> None:
    """Count until SIGTERM, or until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "topic", "group", "name"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    stop_when_stdin_ends()
    with stop_noticed() as stop, WireClient(Connection(options.bootstrap)) as client:
        member = Member(client, options.topic, options.group, options.name)
        while stop.number == 0:
            try:
                member.step()
            except (ConnectionLostError, BrokerError):  # the broker is away, or the group changes: again
                time.sleep(RETRY_S)
        member.leave()


if __name__ == "__main__":
    main()
