"""Commits of `odradek consume --group`: exactly the printed records, checked from outside the process."""

import io
import json
import re
import signal
import subprocess
import sys

import pytest

from odradek.gateway.cli.client import Target, topic_partition
from odradek.gateway.cli.clients.interface import ReadSettings
from odradek.gateway.cli.clients.settings import KAFKA_PYTHON, open_reader
from odradek.gateway.cli.consume import POLL_MS, GroupReading

LINE = b"%05d" + b"." * 94 + b"\n"
NEVER = ("-X", "auto.commit.interval.ms=3600000")
PIPE_BYTES = 65_536
HEARING_SIGNALS = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("odradek", run_name="__main__", alter_sys=True)
"""
"""`python -m odradek` that handles SIGINT even if started by a background job of a shell, which ignores SIGINT."""


class Following:
    """A process that follows partition 0 of a topic, in the group of the same name."""

    def __init__(self, bootstrap, topic, client, *options):
        command = ["consume", topic, "-g", topic, "-f", "--client", client, "-b", bootstrap, *options]
        self._process = subprocess.Popen(
            [sys.executable, "-c", HEARING_SIGNALS, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.stdout = self._process.stdout

    def await_commit(self, committed, offset):
        """Returns once the group has committed `offset`; fails with the process's stderr if it ends before."""
        while committed() != offset:
            assert self._process.poll() is None, self._process.stderr.read().decode()

    def end(self, number):
        """Sends a signal; returns the exit code."""
        self._process.send_signal(number)
        return self._process.wait(60)

    def ended(self):
        """The exit code and stderr, once the process has ended by itself."""
        code = self._process.wait(60)
        return code, self._process.stderr.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait(60)
        self._process.stdout.close()
        self._process.stderr.close()


@pytest.fixture
def committed(odradek, topic):
    """The group's committed offset of partition 0, None if there is none."""

    def ask():
        [group] = json.loads(odradek("groups", "describe", topic, "--json").stdout)
        return next((each["committed"] for each in group["offsets"] if each["partition"] == 0), None)

    return ask


def fill(odradek, topic, numbers):
    odradek("produce", topic, "-q", "-p", "0", stdin=b"".join(LINE % number for number in numbers))


def test_an_idle_consumer_has_committed_what_it_printed(bootstrap, odradek, topic, client, committed):
    fill(odradek, topic, range(3))
    with Following(bootstrap, topic, client, *NEVER) as following:
        assert [following.stdout.readline() for _ in range(3)] == [LINE % number for number in range(3)]
        following.await_commit(committed, 3)
        fill(odradek, topic, range(3, 5))
        following.await_commit(committed, 5)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_commits_what_was_printed(bootstrap, odradek, topic, client, committed, number, code):
    fill(odradek, topic, range(3))
    with Following(bootstrap, topic, client, *NEVER) as following:
        assert [following.stdout.readline() for _ in range(3)] == [LINE % number for number in range(3)]
        assert following.end(number) == code
    assert committed() == 3


def test_a_busy_consumer_commits_at_intervals_and_at_sigterm_only_lines_that_were_taken_whole(
    bootstrap, odradek, topic, client, committed
):
    fill(odradek, topic, range(30_000))
    with Following(bootstrap, topic, client, "-X", "auto.commit.interval.ms=1") as following:
        taken = b"".join(following.stdout.readline() for _ in range(20_000))
        while not committed():  # the pipe is full and the consumer is never idle
            pass
        assert committed() <= 20_000 + (PIPE_BYTES + io.DEFAULT_BUFFER_SIZE) / len(LINE)
        assert following.end(signal.SIGTERM) == 143
        taken += following.stdout.read()
    assert committed() == taken.count(b"\n") < 30_000


def test_what_a_closed_pipe_did_not_take_is_not_committed(bootstrap, odradek, topic, client, committed):
    fill(odradek, topic, range(3))
    with Following(bootstrap, topic, client, *NEVER) as following:
        following.stdout.readline()
        following.await_commit(committed, 3)
        following.stdout.close()
        fill(odradek, topic, range(3, 5))
        assert following.ended() == (141, b"")
    assert committed() == 3


def test_a_reader_that_goes_at_once_leaves_nothing_committed(bootstrap, odradek, topic, client):
    fill(odradek, topic, range(5_000))
    with Following(bootstrap, topic, client, *NEVER) as following:
        following.stdout.readline()
        following.stdout.close()
        assert following.ended() == (141, b"")
    assert [line.split()[2] for line in offsets(odradek, topic)] in ([], ["-", "-"])


def offsets(odradek, group):
    return [line for line in odradek("groups", "describe", group).stdout.splitlines() if re.match(r"\S+ +[01] ", line)]


def test_the_end_commits(odradek, topic, client, committed):
    fill(odradek, topic, range(5))
    assert odradek("consume", topic, "-g", topic, "-n", "2", "--client", client).stdout_bytes.count(b"\n") == 2
    assert committed() == 2
    odradek("consume", topic, "-g", topic, "--client", client)
    assert committed() == 5


def test_what_was_printed_is_committed_before_another_member_gets_the_partition(
    bootstrap, odradek, topic, client, committed
):
    fill(odradek, topic, range(3))
    target = Target(bootstrap, properties={"heartbeat_interval_ms": 100})
    settings = ReadSettings(topic, "earliest", "read_uncommitted")
    with open_reader(client, target, settings) as first, open_reader(client, target, settings) as second:
        mine = GroupReading(first, topic, 3_600_000)
        while len(first.assignment()) < 2:
            first.poll(POLL_MS, 1)
        mine.printed(topic_partition(topic, 0), 3)
        GroupReading(second, topic, 3_600_000)
        while not (len(first.assignment()) == len(second.assignment()) == 1):
            first.poll(POLL_MS, 1)
            second.poll(POLL_MS, 1)
        assert committed() == 3


def test_a_rebalance_that_outlasts_a_poll_ends_in_an_assignment(bootstrap, odradek, topic):
    """The consumer joins again for the topic's new partition, with polls that are shorter than the rebalance."""
    target = Target(bootstrap, properties={"metadata_max_age_ms": 100})
    with open_reader(KAFKA_PYTHON, target, ReadSettings(topic, "earliest", "read_uncommitted")) as reader:
        GroupReading(reader, topic, 3_600_000)
        while len(reader.assignment()) < 2:
            reader.poll(0, 1)
        odradek("topics", "alter", topic, "--partitions", "3")
        while len(reader.assignment()) < 3:
            reader.poll(0, 1)
        fill(odradek, topic, range(1))
        while not reader.poll(0, 1):
            pass
