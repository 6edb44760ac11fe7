"""The values that --from and --until accept."""

import pytest

from odradek.pipeline.restoring.bounds import Bound, parse_bound


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("0", Bound(offset=0)),
        ("1000", Bound(offset=1000)),
        ('{"0": 5, "12": 0}', Bound(offsets={0: 5, 12: 0})),
        ("1970-01-01T00:00:01Z", Bound(time_ms=1000)),
        ("1970-01-02", Bound(time_ms=86_400_000)),
    ],
)
def test_it_is_read(text: str, bound: Bound):
    assert parse_bound(text) == bound


@pytest.mark.parametrize("text", ["", "-1", "{}", '{"a": 1}', '{"0": -1}', '{"0": true}', '{"0": 1.5}', "[1]", "soon"])
def test_nonsense_is_refused(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_bound(text)
