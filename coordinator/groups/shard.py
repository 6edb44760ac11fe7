"""The group coordinator of one partition of `__consumer_offsets`.

Operations take the decoded requests and return an `Outcome`; the runtime replays its records, writes them and sends the
replies (see `coordinator.contract`). The reply to JoinGroup or SyncGroup may come with a later outcome. Requests that
may concern groups of several shards (DescribeGroups, ConsumerGroupDescribe, DeleteGroups, OffsetFetch from version 8
on, ListGroups) are split by the handler, which combines the replies.
"""

from collections.abc import Callable, Collection, Sequence

from odradek.coordinator.contract import Outcome, Reply, ShardRecord, Token
from odradek.coordinator.groups import administration, expiry
from odradek.coordinator.groups import replay as replaying
from odradek.coordinator.groups.classic.describe import describe_group, describe_unknown
from odradek.coordinator.groups.classic.expiry import start_sessions
from odradek.coordinator.groups.classic.heartbeat import heartbeat
from odradek.coordinator.groups.classic.join import Joiner, join_group
from odradek.coordinator.groups.classic.leave import leave_group
from odradek.coordinator.groups.classic.sync import generation_refused, sync_group
from odradek.coordinator.groups.config import GroupConfig
from odradek.coordinator.groups.consumer.describe import describe_consumer_group
from odradek.coordinator.groups.consumer.expiry import start_timers
from odradek.coordinator.groups.consumer.heartbeat import consumer_group_heartbeat
from odradek.coordinator.groups.consumer.resolver import AT_ONCE, RegexResolver
from odradek.coordinator.groups.consumer.table import NO_METADATA
from odradek.coordinator.groups.decision import ClientInfo, Decision
from odradek.coordinator.groups.migration import classic_members
from odradek.coordinator.groups.migration.conversion import GroupConversion
from odradek.coordinator.groups.migration.downgrade import undo_downgrade
from odradek.coordinator.groups.offsets import commit, delete, fetch, txn_commit
from odradek.coordinator.groups.offsets.expiry import DELETED_AT_ONCE, schedule_retention
from odradek.coordinator.groups.offsets.prepared import Prepared
from odradek.coordinator.groups.table import GroupTable
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.wire.messages.join_group import JoinGroupRequest
from odradek.wire.messages.leave_group import LeaveGroupRequest
from odradek.wire.messages.list_groups import ListGroupsRequest
from odradek.wire.messages.offset_commit import OffsetCommitRequest
from odradek.wire.messages.offset_delete import OffsetDeleteRequest
from odradek.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.sync_group import SyncGroupRequest
from odradek.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

_ALIVE = HeartbeatResponse()


class GroupShard:
    """Classic groups, consumer groups and committed offsets; implements `odradek.coordinator.contract.Shard`.

    Every operation returns errors in its reply and raises nothing for input of a client.
    """

    def __init__(
        self,
        config: GroupConfig,
        image: Callable[[], MetadataImage] = lambda: NO_METADATA,
        resolver: RegexResolver = AT_ONCE,
    ) -> None:
        """`image` returns the newest published metadata: topics, and settings of groups. `resolver` matches topics."""
        self.table = GroupTable(config, image, GroupConversion, resolver)

    def configure(self, config: GroupConfig) -> None:
        """Apply changed settings."""
        self.table.configure(config)

    # Called by the runtime

    def replay(self, record: ShardRecord, offset: int, epoch: int, now_ms: int) -> None:
        """Apply one record of the log."""
        replaying.replay(self.table, record, now_ms)

    def replay_end(self, producer_id: int, committed: bool, now_ms: int) -> None:
        """Make the offsets current that the producer committed in its transaction, or drop them."""
        self.table.offsets.store.end_transaction(producer_id, committed)

    def on_loaded(self, now_ms: int) -> Outcome:
        """Start all sessions; rebalance groups above a limit that has been lowered."""
        table, decision = self.table, Decision(now_ms)
        schedule_retention(table.offsets, now_ms)
        start_timers(table.consumer, now_ms)
        start_sessions(table.classic, decision)
        return decision.outcome()

    def next_deadline_ms(self) -> int | None:
        """Returns when the first session, rebalance phase or retention check ends."""
        return self.table.timers.next_deadline_ms()

    def on_time(self, now_ms: int) -> Sequence[Outcome]:
        """Handle the timers that are due. More may be due: see `next_deadline_ms` after replaying the outcomes."""
        return [decision.outcome() for decision in expiry.on_time(self.table, now_ms)]

    def on_refused(self, about: str, now_ms: int) -> None:
        """Undo a conversion of the group, and start ended sessions again, after which it is decided once more. A group
        whose new generation is too large rebalances again.
        """
        undo_downgrade(self.table, about, now_ms)
        generation_refused(self.table.classic, about, now_ms)

    def forget(self, token: Token) -> None:
        """Do nothing: as in Kafka, a member whose connection was closed stays until its session ends."""

    # Membership

    def join_group(self, request: JoinGroupRequest, client: ClientInfo, token: Token, now_ms: int) -> Outcome:
        """Reply with JoinGroupResponse, usually in a later outcome, when the join phase ends."""
        decision = Decision(now_ms, about=request.group_id)
        joiner = Joiner.of(request, client, token)
        consumer_group = self.table.consumer.groups.get(joiner.group_id)
        if consumer_group is not None:
            classic_members.join(self.table, consumer_group, joiner, decision)
        else:
            join_group(self.table.classic, joiner, decision)
        return decision.outcome()

    def sync_group(self, request: SyncGroupRequest, client: ClientInfo, token: Token, now_ms: int) -> Outcome:
        """Reply with SyncGroupResponse, in a later outcome if the leader has not sent the assignments yet."""
        consumer_group = self.table.consumer.groups.get(request.group_id)
        decision = Decision(now_ms, about=request.group_id if consumer_group is None else "")
        if consumer_group is not None:
            classic_members.sync(self.table, consumer_group, request, client, token, decision)
        else:
            sync_group(self.table.classic, request, client, token, decision)
        return decision.outcome()

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> HeartbeatResponse:
        """Extend a member's session. Returns the response directly, since there is no record to commit first."""
        consumer_group = self.table.consumer.groups.get(request.group_id)
        if consumer_group is not None:
            error = classic_members.heartbeat(self.table, consumer_group, request, now_ms)
        else:
            error = heartbeat(self.table.classic, request, now_ms)
        return _ALIVE if error is ErrorCode.NONE else HeartbeatResponse(error_code=error)

    def leave_group(self, request: LeaveGroupRequest, client: ClientInfo, token: Token, now_ms: int) -> Outcome:
        """Reply with LeaveGroupResponse."""
        decision = Decision(now_ms, about=request.group_id)
        consumer_group = self.table.consumer.groups.get(request.group_id)
        if consumer_group is not None:
            classic_members.leave(self.table, consumer_group, request, client, token, decision)
        else:
            leave_group(self.table.classic, request, client, token, decision)
        return decision.outcome()

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: ClientInfo, token: Token, now_ms: int
    ) -> Outcome:
        """Reply with ConsumerGroupHeartbeatResponse."""
        decision = Decision(now_ms, about=request.group_id)
        consumer_group_heartbeat(self.table.consumer, request, client, token, decision)
        return decision.outcome()

    # Offsets

    def offset_commit(
        self,
        request: OffsetCommitRequest,
        client: ClientInfo,
        token: Token,
        now_ms: int,
        prepared: Prepared | None = None,
    ) -> Outcome:
        """Reply with OffsetCommitResponse. A topic's id, if the handler knows it, is stored with the offset.

        `prepared` is the result of `prepare` for this request, if it was called.
        """
        decision = Decision(now_ms)
        group = self.table.find(request.group_id)
        commit.offset_commit(self.table.offsets, group, request, client, token, decision, prepared)
        return decision.outcome()

    def txn_offset_commit(
        self,
        request: TxnOffsetCommitRequest,
        client: ClientInfo,
        token: Token,
        now_ms: int,
        prepared: Prepared | None = None,
    ) -> Outcome:
        """Reply with TxnOffsetCommitResponse. The offsets become current when the producer's transaction commits.

        The caller has verified that the transaction is open here, in the producer's epoch. `prepared` is the result of
        `prepare` for this request, if it was called.
        """
        decision = Decision(now_ms)
        group = self.table.find(request.group_id)
        txn_commit.txn_offset_commit(self.table.offsets, group, request, token, decision, prepared)
        return decision.outcome()

    def offset_fetch(self, request: OffsetFetchRequest, client: ClientInfo, token: Token, now_ms: int) -> Outcome:
        """Reply with OffsetFetchResponse; all groups must be this shard's (always so below version 8)."""
        response = fetch.offset_fetch(self.table.offsets, self.table.find, request, client.api_version)
        return Outcome((), (Reply(token, response),))

    def offset_fetch_group(
        self, request: OffsetFetchRequestGroup, require_stable: bool, token: Token, now_ms: int
    ) -> Outcome:
        """Reply with OffsetFetchResponseGroup: one group's part of a request of version 8 or later."""
        group = self.table.find(request.group_id)
        response = fetch.offset_fetch_group(self.table.offsets, group, request, require_stable)
        return Outcome((), (Reply(token, response),))

    def offset_delete(self, request: OffsetDeleteRequest, client: ClientInfo, token: Token, now_ms: int) -> Outcome:
        """Reply with OffsetDeleteResponse."""
        decision = Decision(now_ms)
        delete.offset_delete(self.table.offsets, self.table.find(request.group_id), request, token, decision)
        return decision.outcome()

    def on_topics_deleted(self, names: Collection[str], now_ms: int, limit: int = DELETED_AT_ONCE) -> Outcome:
        """Delete the offsets in topics that have just been deleted: `limit` of them now, the others in `on_time`."""
        decision = Decision(now_ms)
        self.table.offsets.deleted_topics.update(names)
        delete.delete_offsets_of_topics(self.table.offsets, decision, limit)
        return decision.outcome()

    # Administration

    def describe_group(self, group_id: str, client: ClientInfo, token: Token, now_ms: int) -> Outcome:
        """Reply with DescribedGroup; the handler adds the authorised operations."""
        group = self.table.classic.groups.get(group_id)
        if group is not None:
            described = describe_group(group)
        else:
            other = self.table.find(group_id) is not None
            described = describe_unknown(group_id, client.api_version, other_protocol=other)
        return Outcome((), (Reply(token, described),))

    def describe_consumer_group(self, group_id: str, token: Token, now_ms: int) -> Outcome:
        """Reply with ConsumerGroupDescribe's DescribedGroup; the handler adds the authorised operations."""
        return Outcome((), (Reply(token, describe_consumer_group(self.table.consumer, group_id)),))

    def list_groups(self, request: ListGroupsRequest, client: ClientInfo, token: Token, now_ms: int) -> Outcome:
        """Reply with ListGroupsResponse of this shard's groups."""
        return Outcome((), (Reply(token, administration.list_groups(self.table, request)),))

    def delete_group(self, group_id: str, client: ClientInfo, token: Token, now_ms: int) -> Outcome:
        """Reply with DeletableGroupResult."""
        decision = Decision(now_ms)
        decision.reply(token, administration.delete_group(self.table, group_id, decision))
        return decision.outcome()
