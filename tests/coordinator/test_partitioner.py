"""The partition of an internal topic for a group or a transactional id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.partitioner import java_string_hash, partition_for

# By Java's String.hashCode and Kafka's Utils.abs


@pytest.mark.parametrize(
    ("group_id", "hashed", "partition"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("my-group", -1906497762, 12),
        ("group-with-é", -1518693200, 0),
        ("😀 emoji", -1572615351, 1),
        ("polygenelubricants", -2147483648, 0),
        ("console-consumer-12345", 158455506, 6),
    ],
)
def test_groups_lie_where_kafka_puts_them(group_id, hashed, partition):
    assert java_string_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


@given(st.text(), st.integers(1, 100))
def test_every_group_has_a_partition(group_id, count):
    assert 0 <= partition_for(group_id, count) < count
