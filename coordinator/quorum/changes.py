"""Changes of the voter set (KIP-853): the leader's checks, and the set that it must append.

The request is complete once the record of the set is committed. Until then no other change is made, so that the set in
force differs from the committed one by a single voter, and any two majorities overlap.
"""

from collections.abc import Mapping
from typing import Final

from odradek.coordinator.quorum.leadership import NEVER_MS, ReplicaProgress
from odradek.coordinator.quorum.quorum import Quorum
from odradek.coordinator.quorum.voters import ReplicaKey, Voter, VoterSet
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.types import ZERO_UUID
from odradek.wire.values import immutable

CAUGHT_UP_MS: Final = 3_600_000
"""A replica that has fetched within this time, and was caught up before, may become a voter, as in Kafka."""


@immutable
class Change:
    """The result of a request: an error, or the set to append. With neither, nothing changes."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    voters: VoterSet | None = None


def add_voter(quorum: Quorum, voter: Voter, now_ms: int) -> Change:
    """Add a replica that already follows the leader."""
    current = _changeable(quorum)
    if isinstance(current, Change):
        return current
    if current.get(voter.key.id) is not None:
        message = f"The voter id for {shown(voter.key)} is already part of the set of voters [{listed(current)}]."
        return Change(ErrorCode.DUPLICATE_VOTER, message)
    if not _serves(voter):
        low, high = voter.kraft_versions
        message = f"The voter {shown(voter.key)} serves kraft.version {low} to {high}, and 1 is in force."
        return Change(ErrorCode.INVALID_REQUEST, message)
    assert quorum.leadership is not None
    if not _is_caught_up(quorum.leadership.observers.get(voter.key), now_ms):
        message = f"Aborted add voter operation for {shown(voter.key)} since it is lagging behind"
        return Change(ErrorCode.REQUEST_TIMED_OUT, message)
    return Change(voters=current.having(voter))


def remove_voter(quorum: Quorum, key: ReplicaKey) -> Change:
    """Remove a voter, which may be the leader itself."""
    current = _changeable(quorum)
    if isinstance(current, Change):
        return current
    if key not in current:
        message = f"Cannot remove voter {shown(key)} from the set of voters [{listed(current)}]"
        return Change(ErrorCode.VOTER_NOT_FOUND, message)
    if len(current.voters) == 1:
        return Change(ErrorCode.INVALID_REQUEST, f"Cannot remove {shown(key)}: it is the only voter.")
    return Change(voters=current.without(key))


def update_voter(quorum: Quorum, voter: Voter) -> Change:
    """Change a voter's endpoints or its supported levels of `kraft.version`."""
    current = _changeable(quorum)
    if isinstance(current, Change):
        return current
    if not _serves(voter):
        return Change(ErrorCode.INVALID_REQUEST)
    if voter.key not in current:
        return Change(ErrorCode.VOTER_NOT_FOUND)
    return Change() if current.get(voter.key.id) == voter else Change(voters=current.having(voter))


def raise_version(quorum: Quorum, endpoints: Mapping[int, Mapping[str, tuple[str, int]]]) -> Change:
    """Write the configured voters, with their `endpoints`, to the log, which raises `kraft.version` to 1."""
    refused = _not_settled(quorum)
    if refused is not None:
        return refused
    if quorum.voters_in_log is not None:
        return Change()
    assert quorum.leadership is not None
    directories = {node: each.directory_id for node, each in quorum.leadership.voters.items()}
    unknown = sorted(node for node, directory_id in directories.items() if directory_id == ZERO_UUID)
    if unknown or quorum.is_sole_voter:
        why = f"the directories of voters {unknown} are not known" if unknown else "this node is a cluster of one"
        message = f"kraft.version cannot be raised: {why}."
        return Change(ErrorCode.INVALID_UPDATE_VERSION, message)
    keys = [quorum.me, *(ReplicaKey(node, directory_id) for node, directory_id in directories.items())]
    return Change(voters=VoterSet.of([Voter(key, endpoints[key.id]) for key in keys]))


def _not_settled(quorum: Quorum) -> Change | None:
    """Returns None if this node leads and has committed a record of its own epoch, and so all earlier changes."""
    if quorum.leadership is None:
        return Change(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if not quorum.leadership.has_committed(quorum.high_watermark):
        message = "Request timed out waiting for leader to establish HWM and fence previous voter changes"
        return Change(ErrorCode.REQUEST_TIMED_OUT, message)
    return None


def _changeable(quorum: Quorum) -> VoterSet | Change:
    refused = _not_settled(quorum)
    if refused is not None:
        return refused
    named = quorum.voters_in_log
    if named is None:
        return Change(ErrorCode.UNSUPPORTED_VERSION, "kraft.version is 0: the set of voters is fixed.")
    if named.offset >= quorum.high_watermark:
        message = (
            f"Request timed out waiting for voters to commit the latest voter change at {named.offset} with HWM "
            f"{quorum.high_watermark}"
        )
        return Change(ErrorCode.REQUEST_TIMED_OUT, message)
    return named.voters


def _serves(voter: Voter) -> bool:
    low, high = voter.kraft_versions
    return low <= 1 <= high


def _is_caught_up(progress: ReplicaProgress | None, now_ms: int) -> bool:
    if progress is None or progress.caught_up_ms == NEVER_MS:
        return False
    return now_ms - progress.fetched_ms < CAUGHT_UP_MS


def listed(voters: VoterSet) -> str:
    """Formats the voters of a set for messages."""
    return ", ".join([shown(each.key) for each in voters.voters])


def shown(key: ReplicaKey) -> str:
    """Formats a replica for messages."""
    return f"{key.id} (directory {key.directory_id})"
