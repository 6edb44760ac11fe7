"""Timers fire once, at the deadline that was set last."""

from enum import auto

from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.timers import Timer, TimerKind, Timers


class Kind(TimerKind):
    SESSION = auto()


def drain(timers, now_ms):
    fired = []
    while (timer := timers.pop_due(now_ms)) is not None:
        fired.append(timer.member_id)
    return fired


def test_a_timer_fires_when_it_was_last_set_to():
    timers, timer = Timers(), Timer(Kind.SESSION, member_id="m")
    timers.set(timer, 10)
    timers.set(timer, 30)
    assert timers.next_deadline_ms() == 10, "too early is allowed"
    assert drain(timers, 10) == []
    assert timers.next_deadline_ms() == 30
    timers.set(timer, 20)
    assert timers.next_deadline_ms() == 20
    assert drain(timers, 19) == []
    assert drain(timers, 20) == ["m"]
    assert drain(timers, 99) == []
    assert timers.next_deadline_ms() is None


def test_a_cancelled_timer_does_not_fire_but_may_be_set_again():
    timers, timer = Timers(), Timer(Kind.SESSION, member_id="m")
    timers.set(timer, 10)
    timers.cancel(timer)
    assert drain(timers, 10) == []
    assert timers.next_deadline_ms() is None
    timers.set(timer, 12)
    assert drain(timers, 12) == ["m"]


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 20))), max_size=40))
def test_timers_fire_once_each_in_order(settings_made):
    timers = Timers()
    owned = [Timer(Kind.SESSION, member_id=str(n)) for n in range(4)]
    expected = {}
    for number, deadline_ms in settings_made:
        if deadline_ms is None:
            timers.cancel(owned[number])
            expected.pop(number, None)
        else:
            timers.set(owned[number], deadline_ms)
            expected[number] = deadline_ms
    first_ms = min(expected.values(), default=99)
    early_ms = timers.next_deadline_ms()
    assert not expected if early_ms is None else early_ms <= first_ms or not expected
    assert drain(timers, first_ms - 1) == []
    assert timers.next_deadline_ms() == min(expected.values(), default=None)
    fired = drain(timers, 20)
    assert sorted(fired) == sorted(map(str, expected))
    assert [expected[int(name)] for name in fired] == sorted(expected.values())
