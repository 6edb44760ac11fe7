"""What passes between the quorum's machine and its caller."""

from collections.abc import Sequence
from dataclasses import field
from enum import Enum
from typing import Final, NamedTuple, Protocol

from odradek.coordinator.quorum.voters import ReplicaKey, VotersAt
from odradek.wire.errors import ErrorCode
from odradek.wire.values import immutable

NO_NODE: Final = -1
"""No node: no leader is known."""


class EpochEnd(NamedTuple):
    """Where a log's records of an epoch end."""

    epoch: int
    offset: int


class SnapshotId(NamedTuple):
    """A snapshot of all committed records below `end_offset`; `epoch` is that of the last of them (KIP-630)."""

    end_offset: int
    epoch: int


class QuorumLog(Protocol):
    """What the machine sees of the metadata log. Offsets that are not durable yet count in `end_offset` alone."""

    @property
    def base(self) -> SnapshotId | None:
        """The snapshot that the log begins behind; None for a log that begins at 0."""
        ...

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        """The newest snapshot that is durable and whole."""
        ...

    @property
    def voters(self) -> VotersAt | None:
        """The latest set of voters that the log names, durable or not; None where the settings name them."""
        ...

    @property
    def end_offset(self) -> int:
        """Where the next record goes."""
        ...

    @property
    def durable_end_offset(self) -> int:
        """Up to where the log survives a crash of this node."""
        ...

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; of an empty log, that of its base; 0 or less if there is neither."""
        ...

    def epoch_end(self, epoch: int) -> EpochEnd:
        """The largest epoch not above `epoch`, and the offset after its last record."""
        ...


class State(Enum):
    """What a node is to the quorum; the transitions stand in `quorum.py`."""

    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


@immutable
class Timing:
    """`controller.quorum.….ms`: election time-out, fetch time-out, request time-out, pause after a failed request.

    The first is drawn anew each time, up to twice as long.
    """

    election_ms: int = 1000
    fetch_ms: int = 2000
    request_ms: int = 2000
    retry_ms: int = 20

    @property
    def check_quorum_ms(self) -> int:
        """How long a leader stays leader without fetches from a majority."""
        return self.fetch_ms * 3 // 2


@immutable
class Vote:
    """A candidate's request for a vote, or with `pre_vote` whether it would get one (KIP-996).

    `last_epoch` and `end_offset` describe its log. `voter` is the replica that is asked.
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
    """A replica's request for the records from `offset` on, which acknowledges all below it.

    `last_epoch` is that of its last record, `high_watermark` the one that it knows.
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
    """The answer to BeginEpoch and EndEpoch, and what every answer says: the answering node's epoch and its leader."""

    error: ErrorCode
    epoch: int
    leader_id: int


@immutable
class VoteAnswer:
    """The answer to Vote."""

    error: ErrorCode
    epoch: int
    leader_id: int
    granted: bool = False


@immutable
class FetchAnswer:
    """The answer to Fetch, without the records. With `diverging` there are none: the replica must truncate its log.

    With `snapshot` there are none either: the log no longer has the offset, and the replica must fetch the snapshot.
    """

    error: ErrorCode
    epoch: int
    leader_id: int
    high_watermark: int = -1
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None


@immutable
class FetchSnapshotAnswer:
    """The answer to FetchSnapshot: `length` bytes of the `size` that the snapshot has, from `position` on."""

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
    """A request to send; its answer, or that there was none, is reported with the `number`."""

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
    """What a node must not forget: the epoch, for whom it voted there, and who leads it, so far as it knows."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted: ReplicaKey | None = None


@immutable
class Ready:
    """What is to be done now, in this order; nothing of a later `Ready` before.

    `election` is made durable before anything else happens, a reply to what has led to it included. The log is cut at
    `cut_at`, durably, or begun anew behind the snapshot `restart_at`, which was stored as a whole and is made durable
    first. Then the `role` is taken; one that leads first appends the LeaderChange record. Then `sends`.
    """

    election: ElectionState | None = None
    cut_at: int | None = None
    role: Role | None = None
    sends: Sequence[Send] = field(default_factory=list[Send])
    restart_at: SnapshotId | None = None
