"""Reads pending records from the store's outbox, and appends them to the partitions' logs.

    wait for a notification, or poll ─► read what is next ─► a batch a partition, appended ─► all committed ─► read …

A batch and the removal of its entries are one transaction of the store, so each record is written exactly once,
whatever fails in between. No entries are read while commits are in flight: an entry that is still there was not
written. If it is unknown whether a commit took place, the log is reopened, and the entries that are then still in the
outbox were not written; should that commit still take place, the next one finds its entries gone, and fails.

Records that the topic's current settings do not allow, or whose topic was deleted, become dead letters; to find them,
the records of a refused batch are tried one by one. A partition whose log fails is held back, and the others continue.

Records are appended only to partitions whose only replica is this broker: another leader may not have a record whose
entry was deleted here. Records for other partitions were appended before those got another replica (`topics.py`); they
are held back until it is removed. Nothing is relayed before the image is current, since an older one may lack topics.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from odradek.gateway.env.completion import Completion
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.gateway.outbox.batches import by_place, encoded, in_batches
from odradek.gateway.replication.replica import Replica
from odradek.gateway.replication.replicas import Replicas
from odradek.partitions.model import OutboxEntry
from odradek.partitions.results import AppendOrigin, Rejected
from odradek.partitions.validation import LATEST_PRODUCE_VERSION
from odradek.storage_backends.interface import StoreError
from odradek.storage_backends.outbox import Outbox, OutboxRecord, TopicPartition
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import BatchHeader
from odradek.wire.values import immutable

log = logging.getLogger(__name__)

MAX_RECORDS: Final = 2000
MAX_BYTES: Final = 4 * 1024 * 1024
"""The maximum number of bytes of records read, and in flight, at once."""
ENCODED_AT_ONCE: Final = 20
"""Encoding this number of records takes less time than starting a thread."""
HELD_MS: Final = 100
"""The time for which a partition is held back after a failed write; its log has its own pauses (`recovery.py`)."""
HELD_ELSEWHERE_MS: Final = 1000
"""The time for which a partition that other brokers have, too, or alone, is held back."""
OF_THE_RECORD: Final = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)
"""Refusals that would recur for the same record."""
OF_DELETED_TOPICS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


@immutable
class _Part:
    """Records of one partition that make a batch; `checked` as in `Replica.append`."""

    records: Sequence[OutboxRecord]
    batch: memoryview
    checked: BatchHeader | Rejected | None

    @property
    def entries(self) -> list[OutboxEntry]:
        """The outbox entries that the batch removes."""
        return [record.entry for record in self.records]


class OutboxRelay:
    """Relays records from the store's outbox while `run` runs."""

    def __init__(
        self,
        outbox: Outbox,
        env: Environment,
        replicas: Replicas,
        metadata: MetadataPublisher,
        repeats: Repeats,
        poll_interval_ms: int,
    ) -> None:
        self._outbox, self._env, self._replicas, self._metadata = outbox, env, replicas, metadata
        self._repeats = repeats
        self._poll_interval_ms = poll_interval_ms
        self._changed = Signal()
        self._held: dict[TopicPartition, int] = {}
        self._one_by_one: set[TopicPartition] = set()

    async def run(self) -> None:
        """Relay until cancelled. Appends that are in flight at a cancellation may still be committed by the logs."""
        await self._replicas.current.wait()
        token = trio.lowlevel.current_trio_token()

        def wake() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._changed.wake, idempotent=True)

        await self._env.run_blocking(partial(self._outbox.listen, wake))
        try:
            while True:
                while await self._relay():
                    pass
                await self._changed.wait(self._pause_ms)
        finally:
            with trio.CancelScope(shield=True):
                await self._env.run_blocking(self._outbox.stop)

    @property
    def _pause_ms(self) -> int:
        """The time until the next attempt, unless there is a notification."""
        now_ms = self._env.monotonic_ms()
        return min([self._poll_interval_ms, *[max(until_ms - now_ms, 0) for until_ms in self._held.values()]])

    async def _relay(self) -> bool:
        """Relay the next records; False if there were none, or if the store has failed."""
        now_ms = self._env.monotonic_ms()
        self._held = {partition: until_ms for partition, until_ms in self._held.items() if until_ms > now_ms}
        await self._replicas.backlog.room()
        try:
            found = await self._env.run_blocking(
                partial(self._outbox.pending, MAX_RECORDS, MAX_BYTES, list(self._held))
            )
            await self._write(found)
        except StoreError as error:
            self._note("cannot relay the outbox, it is tried again", error)
            return False
        return bool(found)

    async def _write(self, found: Sequence[OutboxRecord]) -> None:
        """Write the records, separately for each partition. Raises StoreError if dead letters cannot be written."""
        commits: dict[TopicPartition, Completion[None]] = {}
        refused: list[tuple[OutboxRecord, str]] = []
        for partition, records in by_place(found).items():
            try:
                refused += await self._append(partition, records, commits)
            except PartitionUnavailable as error:
                if error.error in OF_DELETED_TOPICS:
                    refused += [(record, "the topic was deleted") for record in records]
                else:
                    is_elsewhere = error.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
                    self._hold(partition, error, HELD_ELSEWHERE_MS if is_elsewhere else HELD_MS)
        for partition, commit in commits.items():
            try:
                await commit.wait()
            except (StoreError, PartitionUnavailable) as error:
                self._hold(partition, error)
        await self._move_to_dead_letters([each for each in refused if each[0].place not in self._held])

    async def _append(
        self,
        partition: TopicPartition,
        records: Sequence[OutboxRecord],
        commits: dict[TopicPartition, Completion[None]],
    ) -> list[tuple[OutboxRecord, str]]:
        """Append one partition's records; returns the refused ones with reasons. Raises PartitionUnavailable."""
        topic_id, index = partition
        replica = await self._replicas.leader(self._metadata.topic_name(topic_id), index, topic_id)
        one_by_one = partition in self._one_by_one
        parts = [[record] for record in records] if one_by_one else in_batches(records, replica.max_batch_bytes)
        batches = [_Part(part, *await self._encoded(replica, part)) for part in parts]
        self._one_by_one.discard(partition)
        refused: list[tuple[OutboxRecord, str]] = []
        if replica.leader.in_sync.remotes:
            cause = "the partition has other replicas, and the outbox serves only those of this broker alone"
            self._hold(partition, cause, HELD_ELSEWHERE_MS)
            return refused
        for part in batches:  # without a checkpoint: if a commit failed in between, the order would be lost
            result = replica.append(
                part.batch, AppendOrigin.CLIENT, checked=part.checked, all_in_sync=True, taken=part.entries
            )
            if not isinstance(result, Rejected):
                commits[partition] = replica.committed(result.last_offset + 1)
            elif result.error not in OF_THE_RECORD:
                self._hold(partition, result)
                break
            elif len(part.records) > 1:
                self._one_by_one.add(partition)
                break
            else:
                refused.append((part.records[0], f"{result.error.name}: {result.message}"))
        return refused

    async def _encoded(
        self, replica: Replica, records: Sequence[OutboxRecord]
    ) -> tuple[memoryview, BatchHeader | Rejected | None]:
        """A batch of the records; and the result of its validation, if that had to run in a worker thread."""
        encode = partial(encoded, records)
        batch = encode() if len(records) <= ENCODED_AT_ONCE else await self._env.run_blocking(encode)
        judge = replica.judgement(batch, LATEST_PRODUCE_VERSION)
        return batch, None if judge is None else await self._env.run_blocking(judge)

    async def _move_to_dead_letters(self, refused: Sequence[tuple[OutboxRecord, str]]) -> None:
        by_reason: dict[str, list[OutboxRecord]] = {}
        for record, reason in refused:
            by_reason.setdefault(reason, []).append(record)
        for reason, records in by_reason.items():
            await self._env.run_blocking(partial(self._outbox.move_to_dead_letters, records, reason))
            log.warning(
                "records of the outbox became dead letters count=%d first=%s-%d reason=%s; see odradek_outbox_dead",
                len(records),
                records[0].topic,
                records[0].partition,
                reason,
            )

    def _hold(self, partition: TopicPartition, cause: object, time_ms: int = HELD_MS) -> None:
        self._held[partition] = self._env.monotonic_ms() + time_ms
        self._note(
            f"cannot relay the outbox to partition {partition[1]} of topic {partition[0]}, it is tried again", cause
        )

    def _note(self, message: str, cause: object) -> None:
        self._repeats.note(("outbox", message), log, logging.WARNING, "%s cause=%s", message, cause)
