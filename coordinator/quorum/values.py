"""The values exchanged between the quorum's state machine and its caller."""

from collections.abc import Sequence
from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple, Protocol

from odradek.coordinator.quorum.voters import ReplicaKey, VotersAt
from odradek.wire.errors import ErrorCode
from odradek.wire.values import immutable

NO_NODE: Final = -1
"""No node: no leader is known."""
UNKNOWN_OFFSET: Final = -1
"""The high watermark in a response of a node that does not know it."""


class EpochEnd(NamedTuple):
    """The end of a log's records of an epoch."""

    epoch: int
    offset: int


class SnapshotId(NamedTuple):
    """A snapshot of all committed records below `end_offset`; `epoch` is that of the last of them (KIP-630)."""

    end_offset: int
    epoch: int


class QuorumLog(Protocol):
    """The state machine's view of the metadata log. Records that are not durable yet count in `end_offset` only."""

    @property
    def base(self) -> SnapshotId | None:
        """The snapshot after which the log begins; None for a log that begins at 0."""
        ...

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot that is durable and whole."""
        ...

    @property
    def voters(self) -> VotersAt | None:
        """The latest voter set in the log, durable or not; None if the log has none."""
        ...

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        ...

    @property
    def durable_end_offset(self) -> int:
        """The end of the part that survives a crash of this node."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; of an empty log, that of its base; 0 or less if there is neither."""
        ...

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Returns the largest epoch not above `epoch`, and the offset after its last record."""
        ...


class State(Enum):
    """The state of a node in the quorum; the transitions are in `quorum.py`."""

    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


@immutable
class Timing:
    """`controller.quorum.….ms`: election time-out, fetch time-out, request time-out, pause after a failed request.

    The election time-out is randomised each time, up to twice its value.
    """

    election_ms: int = 1000
    fetch_ms: int = 2000
    request_ms: int = 2000
    retry_ms: int = 20

    @property
    def check_quorum_ms(self) -> int:
        """How long a leader stays leader without fetches from a majority."""
        return self.fetch_ms * 3 // 2

    @property
    def unstored_ms(self) -> int:
        """The pause of a follower that could not store what it has fetched: most likely it cannot store it now either.

        It is shorter than `fetch_ms`, so that the follower and its leader do not time out meanwhile.
        """
        return max(self.fetch_ms // 2, self.retry_ms)


@immutable
class Vote:
    """A candidate's request for a vote, or with `pre_vote` for a pre-vote (KIP-996).

    `last_epoch` and `end_offset` describe its log. `voter` is the replica to which it is sent.
    """

    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    end_offset: int
    pre_vote: bool
    voter: ReplicaKey | None = None


@immutable
class BeginEpoch:
    """A leader's announcement of itself (BeginQuorumEpoch) to the replica `voter`."""

    epoch: int
    leader_id: int
    voter: ReplicaKey | None = None


@immutable
class EndEpoch:
    """A leader's resignation (EndQuorumEpoch); `successors` has the voters with the most records first."""

    epoch: int
    leader_id: int
    successors: Sequence[ReplicaKey]


@immutable
class Fetch:
    """A replica's request for the records from `offset` on, which acknowledges everything below it.

    `last_epoch` is that of its last record, `high_watermark` the last one it has received.
    """

    epoch: int
    replica: ReplicaKey
    offset: int
    last_epoch: int
    high_watermark: int


@immutable
class FetchSnapshot:
    """A follower's request for the bytes of a snapshot from `position` on (KIP-630)."""

    epoch: int
    replica: ReplicaKey
    snapshot: SnapshotId
    position: int


Request = Vote | BeginEpoch | EndEpoch | Fetch | FetchSnapshot


@immutable
class EpochAnswer:
    """The response to BeginEpoch and EndEpoch. All responses have the responding node's epoch and its leader."""

    error: ErrorCode
    epoch: int
    leader_id: int


@immutable
class VoteAnswer:
    """The response to Vote."""

    error: ErrorCode
    epoch: int
    leader_id: int
    granted: bool = False


@immutable
class FetchAnswer:
    """The response to Fetch, without the records. With `diverging` there are none: the replica must truncate its log.

    With `snapshot` there are none either: the log no longer has the offset, and the replica must fetch the snapshot.
    """

    error: ErrorCode
    epoch: int
    leader_id: int
    high_watermark: int = UNKNOWN_OFFSET
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None


@immutable
class FetchSnapshotAnswer:
    """The response to FetchSnapshot: `length` bytes from `position` on, of a snapshot with `size` bytes."""

    error: ErrorCode
    epoch: int
    leader_id: int
    snapshot: SnapshotId = SnapshotId(-1, -1)
    size: int = 0
    position: int = 0
    length: int = 0


Answer = EpochAnswer | VoteAnswer | FetchAnswer | FetchSnapshotAnswer


@immutable
class Send:
    """A request to send; its response, or the lack of one, is reported with the `number`."""

    to: int
    number: int
    request: Request


@immutable
class Role:
    """The new role of the log. `granting` are the voters that elected this node, if it leads."""

    state: State
    epoch: int
    leader_id: int
    granting: Sequence[int] = ()


@immutable
class ElectionState:
    """The state that a node must not lose: the epoch, its vote in that epoch, and the leader, if known."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted: ReplicaKey | None = None


@immutable
class Ready:
    """What the caller must do, in this order, and before anything of a later `Ready`.

    1. Make `election` durable, before replying to the request that caused it. 2. Truncate the log at `cut_at`, durably,
    or restart it after the snapshot `restart_at`, which was stored as a whole and is made durable first. 3. Take the
    `role`; a leader first appends the LeaderChange record. 4. Send `sends`.
    """

    election: ElectionState | None = None
    cut_at: int | None = None
    role: Role | None = None
    sends: Sequence[Send] = field(default_factory=list[Send])
    restart_at: SnapshotId | None = None
