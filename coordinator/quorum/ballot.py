"""Votes: the rules for granting one, and the count of those received."""

from collections.abc import Collection

from odradek.coordinator.quorum.values import NO_NODE, ElectionState, QuorumLog, State, Vote


def majority_of(voters: Collection[int]) -> int:
    """Returns the number of voters in a majority."""
    return len(voters) // 2 + 1


class Ballot:
    """The votes of one election or one pre-vote. The candidate votes for itself, if it is a voter."""

    def __init__(self, voters: Collection[int], candidate: int) -> None:
        self._voters = voters
        self._granted = {candidate: True} if candidate in voters else {}

    def record(self, voter: int, granted: bool) -> None:
        """Count the response of a voter."""
        if voter in self._voters:
            self._granted[voter] = granted

    @property
    def granting(self) -> list[int]:
        """The voters that have granted their vote."""
        return sorted(voter for voter, granted in self._granted.items() if granted)

    @property
    def unanswered(self) -> list[int]:
        """The voters that have not responded."""
        return [voter for voter in self._voters if voter not in self._granted]

    @property
    def is_won(self) -> bool:
        """True if a majority has granted its vote."""
        return len(self.granting) >= majority_of(self._voters)

    @property
    def is_lost(self) -> bool:
        """True if so many voters have refused that a majority is impossible."""
        return len(self.granting) + len(self.unanswered) < majority_of(self._voters)


def grants(vote: Vote, state: State, election: ElectionState, log: QuorumLog, *, has_fetched: bool) -> bool:
    """Returns True if a node in the epoch of `vote` grants it.

    `has_fetched` is True for a follower whose leader has answered a fetch.

    | state                            | pre-vote              | vote                                                |
    |----------------------------------|-----------------------|-----------------------------------------------------|
    | unattached, prospective          | if log is not behind  | likewise, if no leader known and no vote for others |
    | follower                         | if not `has_fetched`  | only a repeated vote for the same candidate         |
    | candidate, resigned              | if log is not behind  | never                                               |
    | leader                           | never                 | never                                               |
    """
    if state is State.LEADER or not is_up_to_date(vote, log):
        return False
    if vote.pre_vote:
        return not (state is State.FOLLOWER and has_fetched)
    if state in (State.CANDIDATE, State.RESIGNED):
        return False
    if election.voted is not None:
        return election.voted == vote.candidate
    return election.leader_id == NO_NODE


def is_up_to_date(vote: Vote, log: QuorumLog) -> bool:
    """Returns True if the candidate's log is not behind this one, compared by last epoch, then by end offset."""
    return (vote.last_epoch, vote.end_offset) >= (max(log.last_epoch, 0), log.end_offset)
