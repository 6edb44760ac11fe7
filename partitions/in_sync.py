"""The in-sync replicas of a partition as known to its leader: which determine the high watermark, join and leave.

Theory of operation (KIP-497, KIP-841, KIP-903, KIP-966)
--------------------------------------------------------
The controller decides the ISR; the leader proposes changes. While a proposal is in flight, the leader cannot know
whether it is in force. Then it counts for the high watermark every replica that may be in the ISR, the *maximal ISR*:

    committed ISR ──propose──► proposal in flight: maximal ISR = committed and proposed
         ▲                        │ accepted, or an image of a later partition epoch: that ISR is committed
         │                        │ refused for certain (not attempted, ineligible replica): the committed ISR again
         └────────────────────────┤
                                  │ no response, or another error: sent again, still in flight
                                  │ refused since the leader's view is old (epochs, topic): in flight until the image
                                  ▼ has the ISR in force

An image of the partition epoch that is already known changes nothing: it is the accepted proposal, published, and the
next proposal may already be in flight.

- *Joining*: a follower that has fetched in this epoch up to the high watermark and to where the epoch began, from its
  broker's current registration, which is neither fenced nor shutting down. The epoch's start counts because the
  leader's high watermark may be behind what its predecessor had committed.
- *Leaving*: an in-sync follower that has not caught up within `replica.lag.time.max.ms`.
- *The high watermark* is the smallest log end offset of the maximal ISR and of the followers that have caught up and
  are about to join; otherwise these might never reach it under constant load. With fewer than `min.insync.replicas` in
  the committed ISR it does not move (KIP-966): the failure of one broker might lose what is committed then.
- `min.insync.replicas` is limited to the number of replicas.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from odradek.partitions.config import LogConfig
from odradek.partitions.fetching.selection import Candidate, nearest_replica
from odradek.partitions.remote import UNKNOWN_BROKER_EPOCH, RemoteReplica
from odradek.partitions.results import UNKNOWN_OFFSET
from odradek.wire.errors import ErrorCode
from odradek.wire.values import immutable


class BrokerStanding(NamedTuple):
    """A broker in the metadata: the epoch of its registration, whether it may join an ISR now, and its rack."""

    epoch: int
    is_active: bool
    rack: str | None = None


Brokers = Callable[[int], BrokerStanding | None]
"""Returns the standing of a broker in the newest metadata; None if it is not registered."""


@immutable
class Membership:
    """The replicas and the ISR of a partition as decided by the controller; `broker_id` is this broker, one of them."""

    broker_id: int
    replicas: Sequence[int]
    isr: Sequence[int]
    partition_epoch: int


ALONE: Final = Membership(0, (0,), (0,), 0)
"""A partition whose only replica is the leader."""


class IsrMember(NamedTuple):
    """A proposed member, with the registration of its broker that it has fetched in; -1 if it has not fetched yet."""

    broker_id: int
    broker_epoch: int


@immutable
class IsrProposal:
    """An ISR that the leader proposes. The controller accepts it only if both epochs are the partition's current ones.

    `reasons` states for the log why each replica joins or leaves; `is_expansion` is True if one joins.
    """

    members: tuple[IsrMember, ...]
    leader_epoch: int
    partition_epoch: int
    reasons: tuple[str, ...] = ()
    is_expansion: bool = False

    @property
    def isr(self) -> tuple[int, ...]:
        """The members' broker ids."""
        return tuple(member.broker_id for member in self.members)


class IsrDecision(NamedTuple):
    """The controller's response to a proposal that it has processed."""

    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


REFUSED: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The proposal is certainly not in force."""
VIEW_IS_OLD: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller has newer metadata than the leader; the ISR in force follows with the metadata."""


class InSyncReplicas:
    """The ISR of one leader epoch. `epoch_start_offset` is where the epoch began in the leader's log.

    `remotes` are the other replicas, in the ISR or not; `isr` is the committed ISR; `proposal` is in flight, or None.
    """

    def __init__(self, membership: Membership, leader_epoch: int, epoch_start_offset: int, brokers: Brokers) -> None:
        self.isr = frozenset(membership.isr)
        self.maximal = self.isr
        self.proposal: IsrProposal | None = None
        self.remotes: dict[int, RemoteReplica] = {}
        self.now_ms = 0
        self._broker_id = membership.broker_id
        self._partition_epoch = membership.partition_epoch
        self._leader_epoch = leader_epoch
        self.epoch_start_offset = epoch_start_offset
        self._brokers = brokers

    def begin(self, membership: Membership, now_ms: int) -> None:
        """Set the replicas; in-sync ones have `replica.lag.time.max.ms` from now on to fetch."""
        self.now_ms = now_ms
        self._set_replicas(membership.replicas)

    def reopened(self, log_end_offset: int) -> None:
        """The leader's log was reopened, and may have lost what it had fetched before it was elected.

        A follower may have reported that it has these records; what the leader appends in their place it does not have.
        """
        self.epoch_start_offset = min(self.epoch_start_offset, log_end_offset)
        for remote in self.remotes.values():
            remote.log_end_offset = min(remote.log_end_offset, log_end_offset)

    def _set_replicas(self, replicas: Sequence[int]) -> None:
        others = [each for each in replicas if each != self._broker_id]
        known = self.remotes
        self.remotes = {
            each: known.get(each) or RemoteReplica(self.now_ms, in_sync=each in self.maximal) for each in others
        }

    def assign(self, membership: Membership) -> bool:
        """Apply the metadata of the same leader epoch; returns True if the ISR has changed."""
        if membership.partition_epoch <= self._partition_epoch:
            return False  # the leader's own accepted proposal, or older
        self._commit(membership.isr, membership.partition_epoch)
        self._set_replicas(membership.replicas)
        return True

    def _commit(self, isr: Sequence[int], partition_epoch: int) -> None:
        self.isr = self.maximal = frozenset(isr)
        self._partition_epoch = partition_epoch
        self.proposal = None

    def low_watermark(self, log_start_offset: int) -> int:
        """The smallest log start offset of the leader and the replicas on active brokers; -1 while one is unknown."""
        starts = [each.log_start_offset for broker_id, each in self.remotes.items() if self._is_active(broker_id)]
        return min([log_start_offset, *starts])

    def _is_active(self, broker_id: int) -> bool:
        standing = self._brokers(broker_id)
        return standing is not None and standing.is_active

    def is_short(self, config: LogConfig) -> bool:
        """True if the ISR has fewer members than `min.insync.replicas`."""
        return len(self.isr) < min(config.min_insync_replicas, len(self.remotes) + 1)

    def committed_end(self, own_end: int, config: LogConfig) -> int:
        """Returns the end of what all counted replicas have in their logs, -1 while the ISR is too small."""
        if self.is_short(config):
            return UNKNOWN_OFFSET
        end = own_end
        for broker_id, remote in self.remotes.items():
            if remote.log_end_offset < end and (
                broker_id in self.maximal or self._is_joining(broker_id, remote, own_end, config)
            ):
                end = remote.log_end_offset
        return end

    def _is_joining(self, broker_id: int, remote: RemoteReplica, readable_end: int, config: LogConfig) -> bool:
        return (
            remote.has_fetched
            and remote.is_caught_up(readable_end, self.now_ms, config.replica_lag_time_max_ms)
            and self._is_eligible(broker_id, remote)
        )

    def _is_eligible(self, broker_id: int, remote: RemoteReplica) -> bool:
        standing = self._brokers(broker_id)
        return standing is not None and standing.is_active and standing.epoch == remote.broker_epoch

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """True if the broker has registered again since the registration `broker_epoch`."""
        standing = self._brokers(broker_id)
        return standing is not None and standing.epoch > broker_epoch

    def expansion(self, broker_id: int, high_watermark: int) -> IsrProposal | None:
        """Propose that a follower joins, if it may; the proposal is then in flight."""
        remote = self.remotes[broker_id]
        if self.proposal is not None or broker_id in self.isr or not remote.has_fetched:
            return None
        if remote.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if not self._is_eligible(broker_id, remote):
            return None
        reason = f"replica {broker_id} joins at offset {remote.log_end_offset}"
        return self._propose(sorted({*self.isr, broker_id}), (reason,))

    def shrinking(self, readable_end: int, max_lag_ms: int) -> IsrProposal | None:
        """Propose that in-sync followers leave that have lagged for too long; the proposal is then in flight."""
        if self.proposal is not None:
            return None
        lagging = [
            broker_id
            for broker_id, remote in self.remotes.items()
            if broker_id in self.isr and not remote.is_caught_up(readable_end, self.now_ms, max_lag_ms)
        ]
        if not lagging:
            return None
        reasons = [self._lag_of(broker_id, readable_end) for broker_id in lagging]
        return self._propose(sorted(self.isr.difference(lagging)), tuple(reasons))

    def _lag_of(self, broker_id: int, readable_end: int) -> str:
        remote = self.remotes[broker_id]
        behind_ms = self.now_ms - remote.last_caught_up_ms
        if not remote.has_fetched:
            return f"replica {broker_id} leaves, which has not fetched for {behind_ms} ms"
        end = remote.log_end_offset
        return f"replica {broker_id} leaves at offset {end} of {readable_end}, behind for {behind_ms} ms"

    def _propose(self, isr: Sequence[int], reasons: tuple[str, ...]) -> IsrProposal:
        members = tuple(IsrMember(each, self._epoch_of(each)) for each in isr)
        grows = len(members) > len(self.isr)
        self.proposal = IsrProposal(members, self._leader_epoch, self._partition_epoch, reasons, grows)
        self.maximal = self.isr.union(isr)
        return self.proposal

    def _epoch_of(self, broker_id: int) -> int:
        remote = self.remotes.get(broker_id)
        if remote is not None:
            return remote.broker_epoch
        own = self._brokers(broker_id)
        return UNKNOWN_BROKER_EPOCH if own is None else own.epoch

    def preferred_replica(self, rack: str, fetch_offset: int) -> int | None:
        """Returns the follower for a consumer of `rack` to read from, None: the leader (`fetching/selection.py`)."""
        own = self._brokers(self._broker_id)
        candidates = [
            Candidate(each, standing.rack, remote.log_start_offset, remote.log_end_offset, remote.last_caught_up_ms)
            for each, remote in self.remotes.items()
            if each in self.isr and (standing := self._brokers(each)) is not None and standing.is_active
        ]
        return nearest_replica(rack, None if own is None else own.rack, fetch_offset, candidates)

    def answered(self, proposal: IsrProposal, answer: IsrDecision | ErrorCode) -> bool:
        """Process the controller's response; returns True if the proposal must be sent again."""
        if self.proposal is not proposal:
            return False  # an image has ended this proposal already
        if isinstance(answer, IsrDecision):
            is_known = answer.leader_epoch == self._leader_epoch and answer.partition_epoch >= self._partition_epoch
            if is_known:
                self._commit(answer.isr, answer.partition_epoch)
            return False  # otherwise the next image has the ISR in force
        if answer in REFUSED:
            self.proposal, self.maximal = None, self.isr
            return False
        return answer not in VIEW_IS_OLD
