"""The transition table of classic groups."""

from odradek.coordinator.groups.classic.states import TRANSITIONS, GroupState


def test_every_live_state_can_end_and_none_begins_again():
    assert TRANSITIONS.keys() == set(GroupState)
    assert all(GroupState.DEAD in TRANSITIONS[state] for state in GroupState if state is not GroupState.DEAD)
    assert not TRANSITIONS[GroupState.DEAD]
