"""The leading part of a replica: takes writes, serves followers, and proposes changes of the ISR."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from odradek.gateway.env.completion import DONE, Completion
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.replication.partition import OPEN, PartitionLog, ReplicaState
from odradek.gateway.replication.progress import OffsetWaits
from odradek.gateway.replication.proposals import IsrAnswer
from odradek.partitions.imports import ImportedBatch
from odradek.partitions.in_sync import IsrDecision, IsrProposal
from odradek.partitions.leader import FollowerFetch, Leader
from odradek.partitions.model import OutboxEntry
from odradek.partitions.producers import EndTxnMarker, ProducerEntry
from odradek.partitions.reads import NOT_LEADER
from odradek.partitions.results import NO_LEADER_EPOCH, Appended, AppendOrigin, Duplicate, FetchPlan, Rejected
from odradek.partitions.transaction_guard import VerificationGuard
from odradek.partitions.validation import check_client_batch, takes_long
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import BatchHeader, peek_header
from odradek.wire.records.errors import InvalidRecordBatch

log = logging.getLogger(__name__)

MAX_AWAITED_DELETIONS: Final = 100
"""The maximum number of deletions that wait for other replicas: one that does not fetch holds up all of them."""
MAX_REFUSED_PRODUCERS: Final = 10_000
"""The maximum number of producers whose first batch was refused; see `LeadingLog.note_refused`."""


class LeadingLog(PartitionLog):
    """A log with its leader's operations.

    `leader`, and every operation that uses it, raises PartitionUnavailable if another broker leads.
    """

    @property
    def leader(self) -> Leader:
        """The leader role.

        Raises PartitionUnavailable when the partition is unavailable, or another broker leads it.
        """
        role = self._role
        if self.state is not OPEN:
            self._refuse()
        if isinstance(role, Leader):
            return role
        raise self._not_leader()

    def append(
        self,
        records: memoryview,
        origin: AppendOrigin,
        *,
        api_version: int = 9,
        marker: EndTxnMarker | None = None,
        guard: VerificationGuard | None = None,
        checked: BatchHeader | Rejected | None = None,
        leader_epoch: int = NO_LEADER_EPOCH,
        all_in_sync: bool = False,
        taken: Sequence[OutboxEntry] = (),
    ) -> Appended | Duplicate | Rejected:
        """Decide on one batch and queue it; the result is final once the offset after it is `durable` or `committed`.

        The same holds for a duplicate, whose original may still wait for its commit. `records` must not be changed or
        reused before they are durable; `checked` is the result of `judgement` for them, and `marker` the contents of a
        transaction marker's batch, as for `Leader.append`. `taken` are the entries of the store's outbox from which
        they come. Raises PartitionUnavailable.
        """
        if self._recovery.writing.is_failing:
            self._check_writable()
        leader = self.leader
        if self._refused:  # refused while writes failed and the log stayed open
            leader.state.await_first_batch_retry(self._refused)
            self._refused.clear()
        result = leader.append(
            records,
            origin=origin,
            now_ms=self._env.wall_ms(),
            api_version=api_version,
            marker=marker,
            guard=guard,
            checked=checked,
            leader_epoch=leader_epoch,
            all_in_sync=all_in_sync,
        )
        if isinstance(result, Appended):
            self._submit(replace(result.write, taken=taken) if taken else result.write, result.last_offset + 1)
        return result

    def take_imported(self, records: memoryview, batches: Sequence[ImportedBatch]) -> Appended | Rejected:
        """Queue batches of another log with their offsets; the result is as that of `append`.

        `records` must not be changed or reused before they are durable. Raises PartitionUnavailable.
        """
        self._check_writable()
        result = self.leader.take_imported(records, batches)
        if isinstance(result, Appended):
            self._submit(result.write, result.last_offset + 1)
        return result

    def judgement(self, records: memoryview, api_version: int) -> Callable[[], BatchHeader | Rejected] | None:
        """The check of a client's records, to be called in a thread; None if it does not take long, as is usual.

        `append` checks everything that depends on other batches.
        """
        config, now_ms = self._config, self._env.wall_ms()
        if not takes_long(records, config, now_ms):
            return None
        return lambda: check_client_batch(records, config, now_ms, api_version)

    def note_refused(self, records: memoryview) -> None:
        """Note a batch that was refused because the log is unavailable, not led here, or has too few in-sync replicas.

        If it was its producer's first batch, later batches in flight must not be accepted before it is retried.
        """
        try:
            header = peek_header(records)
        except InvalidRecordBatch:
            return  # it would have been refused anyway
        if header.has_producer_id and header.base_sequence == 0 and len(self._refused) < MAX_REFUSED_PRODUCERS:
            self._refused[header.producer_id] = ProducerEntry(
                header.producer_epoch, last_timestamp_ms=self._env.wall_ms()
            )

    def expire_producers(self) -> None:
        """Also forget the refused batches of producers that were not sent again for `producer.id.expiration.ms`."""
        oldest_ms = self._env.wall_ms() - self._config.producer_id_expiration_ms
        for producer_id in [key for key, entry in self._refused.items() if entry.last_timestamp_ms <= oldest_ms]:
            del self._refused[producer_id]
        super().expire_producers()

    def plan_follower_fetch(
        self,
        follower: FollowerFetch,
        offset: int,
        *,
        max_bytes: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
    ) -> FetchPlan | Rejected:
        """Plan the read of a follower; see `Leader.plan_follower_fetch`. Raises PartitionUnavailable.

        The epoch of the request is checked before the role, as in all reads.
        """
        role = self.role
        if not isinstance(role, Leader):
            return role.state.check_epoch(current_leader_epoch) or NOT_LEADER
        return role.plan_follower_fetch(
            follower,
            offset,
            max_bytes=max_bytes,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )

    def record_fetch(self, follower: FollowerFetch, plan: FetchPlan) -> None:
        """Record the follower's position by the plan that was just made for it, and act on it.

        Raises PartitionUnavailable.
        """
        leader = self.leader
        moved, proposal = leader.record_fetch(follower, plan, self._env.monotonic_ms())
        self._committed(moved=moved)
        self._note_deleted()
        if proposal is not None:
            self._propose(leader, proposal)

    def deleted(self, offset: int) -> Completion[None]:
        """Settled when all replicas on active brokers have deleted the records below `offset`.

        A follower adopts the log start with the response to a fetch, and reports it with the next one. Fails with
        PartitionUnavailable if this broker becomes a follower, the topic is deleted, or the partition moves to other
        brokers, and with REQUEST_TIMED_OUT if too many wait. Raises PartitionUnavailable.
        """
        if self.leader.low_watermark >= offset:
            return DONE
        waits = self._deleted_waits = self._deleted_waits or OffsetWaits()
        if len(waits.waiting) >= MAX_AWAITED_DELETIONS:
            waits.fail_first(PartitionUnavailable(ErrorCode.REQUEST_TIMED_OUT, self.key))
        return waits.until(offset)

    def _note_deleted(self) -> None:
        if self._deleted_waits is not None and isinstance(self._role, Leader):
            self._deleted_waits.reach(self._role.low_watermark)

    def holds_back(self, broker_id: int) -> bool:
        """True if a follower must get no records now: it is not in sync, and the throttle's rate is exceeded."""
        role, quota = self._role, self._resources.throttles.leader
        if not self.is_throttled or not isinstance(role, Leader) or broker_id in role.in_sync.isr:
            return False
        return quota.is_exceeded(self._env.monotonic_ms())

    @property
    def is_throttled(self) -> bool:
        """True if this log's records sent to followers count for the leader throttle (KIP-73)."""
        return self.throttled_by(self._config.leader_replication_throttled_replicas)

    def preferred_replica(self, rack: str, fetch_offset: int) -> int | None:
        """The follower that a consumer of `rack` should read from; None for this replica, also if it is a follower."""
        role = self._role
        return role.in_sync.preferred_replica(rack, fetch_offset) if isinstance(role, Leader) else None

    def watch_lag(self) -> None:
        """Recompute the high watermark, and propose to remove lagging followers from the ISR.

        To be called at intervals, and when brokers change.
        """
        leader = self._role
        if self.state is ReplicaState.OPEN and isinstance(leader, Leader) and leader.in_sync.remotes:
            self._committed(moved=leader.advance_at(self._env.monotonic_ms()))
            self._note_deleted()
            proposal = leader.shrinking(self._env.monotonic_ms())
            if proposal is not None:
                self._propose(leader, proposal)

    def _propose(self, leader: Leader, proposal: IsrProposal) -> None:
        isr = ",".join(str(each) for each in sorted(leader.in_sync.isr))
        wanted = ",".join(str(each) for each in proposal.isr)
        text = "in-sync replicas %s partition=%s isr=%s proposed=%s reason=%s log_end=%d high_watermark=%d"
        ends = leader.state.log_end_offset, leader.state.high_watermark
        verb = "expand" if proposal.is_expansion else "shrink"
        changes = self._resources.isr_changes
        if changes.note(text, verb, self.key, isr, wanted, "; ".join(proposal.reasons), *ends):
            self._resources.ticker.soon(changes.report)
        self._send(proposal)

    def _send(self, proposal: IsrProposal) -> None:
        answered = self._resources.proposals.propose(self.key, proposal)
        answered.on_settled(partial(self._answered, proposal))

    def _answered(self, proposal: IsrProposal, answered: Completion[IsrAnswer]) -> None:
        leader, answer = self._role, answered.result()
        self._resources.isr_changes.answered(proposal, answer)
        if not isinstance(leader, Leader) or leader.in_sync.proposal is not proposal:
            return  # the epoch and its proposals have ended, or the metadata came first
        moved, again = leader.answered(proposal, answer)
        if isinstance(answer, IsrDecision):
            isr = ",".join(str(each) for each in answer.isr)
            log.debug("in-sync replicas partition=%s isr=%s epoch=%d", self.key, isr, answer.partition_epoch)
        else:
            log.info("in-sync replicas are not as proposed partition=%s error=%s", self.key, answer.name)
        self._committed(moved=moved)
        if again:
            self._send(proposal)
