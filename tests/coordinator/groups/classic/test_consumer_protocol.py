"""The subscribed topics in the metadata of a JoinGroup."""

from group_script import subscription
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.groups.classic.consumer_protocol import MalformedSubscription, subscribed_topics


def test_topics_are_read_from_the_prefix_that_all_versions_share():
    assert subscribed_topics(subscription(["t", "ü"]) + b"whatever later versions add") == ["t", "ü"]


@given(st.binary(max_size=40))
def test_other_metadata_is_malformed_and_nothing_worse(data):
    try:
        assert len(subscribed_topics(data)) <= len(data)
    except MalformedSubscription:
        assert data[:6] != b"\0\0\0\0\0\0"
