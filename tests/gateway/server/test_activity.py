"""The time-outs of a connection, by the bytes transferred."""

import pytest

from odradek.gateway.server.activity import Activity


class Sent:
    sent_bytes = 0


@pytest.fixture
def sent():
    return Sent()


@pytest.fixture
def activity(sent):
    return Activity(sent, 1000)


def test_it_is_idle_since_the_last_bytes_came(activity):
    assert activity.idle_ms(1300) == 300
    activity.received_count += 1
    assert activity.idle_ms(1400) == 0
    assert activity.idle_ms(1500) == 100
    activity.last_ms = 1600
    assert activity.idle_ms(1700) == 100


def test_bytes_that_the_peer_has_taken_are_noticed_when_it_is_asked(activity, sent):
    sent.sent_bytes = 10
    assert activity.idle_ms(1300) == 0
    assert activity.idle_ms(1400) == 100


def test_it_is_stalled_only_while_something_is_sent(activity):
    assert activity.stalled_ms(5000) == 0
    activity.send_began(5000)
    assert activity.stalled_ms(5300) == 300
    activity.send_ended()
    assert activity.stalled_ms(6000) == 0


def test_a_peer_that_takes_some_is_not_stalled(activity, sent):
    activity.send_began(5000)
    sent.sent_bytes = 1
    assert activity.stalled_ms(5300) == 0
    assert activity.stalled_ms(5400) == 100
