"""The load of idle groups: which answers count, and a steady rate, without a broker."""

import pytest

from benchmarks.loads.groups import HEARTBEAT_BYTES, count_answers


def answer(error: int = 0) -> bytes:
    return bytes(13) + error.to_bytes(2, "big") + bytes(1)


def test_answers_to_heartbeats_are_counted():
    assert len(answer()) == HEARTBEAT_BYTES
    assert count_answers(answer()) == 1
    assert count_answers(answer() * 3) == 3


@pytest.mark.parametrize("data", [b"", answer()[:-1], answer() + b"x", answer(27), answer() + answer(25)])
def test_anything_else_ends_the_measurement(data):
    with pytest.raises(SystemExit):
        count_answers(data)
