"""When a failed log is tried again, and what is logged about it."""

import logging

import pytest

from odradek.gateway.env.environment import ProductionEnvironment
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.replication.recovery import Backoff, Recovery
from odradek.storage_backends.interface import DiskFullError, StoreFullError


class Clock(ProductionEnvironment):
    now_ms = 1_000_000

    def monotonic_ms(self):
        return self.now_ms


@pytest.fixture
def clock():
    return Clock()


def failures_of(clock, recovery, for_ms):
    """Attempts a write every millisecond, each of which fails; returns the times of the attempts."""
    tried, start = [], clock.now_ms
    while clock.now_ms < start + for_ms:
        if recovery.may_try(recovery.writing):
            tried.append(clock.now_ms - start)
            recovery.failed(recovery.writing, "commit failed", OSError(5, "no"))
        clock.now_ms += 1
    return tried


def test_the_second_attempt_follows_at_once_and_each_further_one_after_twice_the_pause(clock):
    recovery = Recovery("t-0", clock, Backoff(100, 1000), Repeats())
    assert failures_of(clock, recovery, 6000) == [0, 1, 101, 301, 701, 1501, 2501, 3501, 4501, 5501]


def test_one_line_when_it_begins_and_one_when_it_ends(clock, caplog):
    caplog.set_level(logging.INFO)
    recovery = Recovery("t-0", clock, Backoff(100, 1000), Repeats())
    tried = failures_of(clock, recovery, 5000)
    recovery.succeeded(recovery.opening, 7)  # it was reopened, and no write has succeeded yet
    assert len(caplog.records) == 1
    assert "commit failed partition=t-0 error=[Errno 5] no" in caplog.text
    recovery.succeeded(recovery.writing, 7)
    begin, end = caplog.records
    assert (begin.levelname, end.levelname) == ("ERROR", "INFO")
    assert f"failed_attempts={len(tried)} refused_attempts={5000 - len(tried)}" in end.getMessage()
    assert "log_end_offset=7" in end.getMessage()


def test_a_full_disk_is_one_line_for_all_logs(clock, caplog):
    caplog.set_level(logging.INFO)
    repeats = Repeats()
    recoveries = [Recovery(f"t-{number}", clock, Backoff(100, 1000), repeats) for number in range(50)]
    for recovery in recoveries:
        recovery.failed(recovery.writing, "commit failed", DiskFullError("writing: the file system is full"))
    (line,) = caplog.records
    assert "commit failed partition=t-0 error=writing: the file system is full" in line.getMessage()
    repeats.report()
    assert "(times=49 since it was last logged)" in caplog.records[1].getMessage()
    for recovery in recoveries:
        recovery.succeeded(recovery.writing, 7)
    assert [record.levelname for record in caplog.records[2:]] == ["INFO"]


def test_a_map_that_is_too_small_is_the_failure_of_one_log(clock, caplog):
    repeats = Repeats()
    for number in range(2):
        recovery = Recovery(f"t-{number}", clock, Backoff(100, 1000), repeats)
        recovery.failed(recovery.writing, "commit failed", StoreFullError("raise segment.bytes"))
    assert len(caplog.records) == 2


def test_a_log_that_fails_soon_again_goes_on_with_the_longer_pauses(clock):
    recovery = Recovery("t-0", clock, Backoff(100, 1000), Repeats())
    for _ in range(6):
        recovery.failed(recovery.writing, "commit failed", OSError())
    recovery.succeeded(recovery.writing, 0)
    assert recovery.writing.wait_ms == 0
    clock.now_ms += 900
    recovery.failed(recovery.writing, "commit failed", OSError())
    assert recovery.writing.wait_ms == 1000
    recovery.succeeded(recovery.writing, 0)
    clock.now_ms += 1001
    recovery.failed(recovery.writing, "commit failed", OSError())
    assert recovery.writing.wait_ms == 0


def test_opening_and_writing_have_pauses_of_their_own(clock):
    recovery = Recovery("t-0", clock, Backoff(100, 1000), Repeats())
    for _ in range(3):
        recovery.failed(recovery.writing, "commit failed", OSError())
    assert recovery.may_try(recovery.opening)
    assert not recovery.may_try(recovery.writing)
