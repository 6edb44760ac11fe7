"""Votes: whom a node grants its own, and the count of those that it is given."""

from collections.abc import Collection

from odradek.coordinator.quorum.values import NO_NODE, ElectionState, QuorumLog, State, Vote


def majority_of(voters: Collection[int]) -> int:
    """The number of voters in a majority."""
    return len(voters) // 2 + 1


class Ballot:
    """The votes of one election or one pre-vote. The candidate votes for itself, if it is a voter."""

    def __init__(self, voters: Collection[int], candidate: int) -> None:
        self._voters = voters
        self._granted = {candidate: True} if candidate in voters else {}

    def record(self, voter: int, granted: bool) -> None:
        """Count the answer of a voter."""
        if voter in self._voters:
            self._granted[voter] = granted

    @property
    def granting(self) -> list[int]:
        """The voters that granted theirs."""
        return sorted(voter for voter, granted in self._granted.items() if granted)

    @property
    def unanswered(self) -> list[int]:
        """The voters that have not answered."""
        return [voter for voter in self._voters if voter not in self._granted]

    @property
    def is_won(self) -> bool:
        """Whether a majority has granted it."""
        return len(self.granting) >= majority_of(self._voters)

    @property
    def is_lost(self) -> bool:
        """Whether so many have refused that no majority is left."""
        return len(self.granting) + len(self.unanswered) < majority_of(self._voters)


def grants(vote: Vote, state: State, election: ElectionState, log: QuorumLog, *, has_fetched: bool) -> bool:
    """Whether a node in the epoch of `vote` grants it. `has_fetched`: a follower whose leader has answered a fetch.

    | state                            | pre-vote              | vote                                                |
    |----------------------------------|-----------------------|-----------------------------------------------------|
    | unattached, prospective          | if the log is no less | if that, not voted for another, and no leader known |
    | follower                         | if not `has_fetched`  | never again in this epoch but to the same           |
    | candidate, resigned              | if the log is no less | never                                               |
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
    """Whether the candidate's log is not behind this one: a later epoch decides, then the length."""
    return (vote.last_epoch, vote.end_offset) >= (max(log.last_epoch, 0), log.end_offset)
