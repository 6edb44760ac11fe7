"""What `odradek consume --group` commits: exactly what was printed, seen from outside the process."""

import io
import json
import re
import signal
import subprocess
import sys

import pytest

LINE = b"%05d" + b"." * 94 + b"\n"
NEVER = ("-X", "auto.commit.interval.ms=3600000")
PIPE_BYTES = 65_536
HEARING_SIGNALS = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("gateway", run_name="__main__", alter_sys=True)
"""
"""`python -m gateway`, also under a shell's background job, which ignores SIGINT with all that it starts."""


class Following:
    """A process that follows partition 0 of a topic in the group of the same name."""

    def __init__(self, bootstrap, topic, client, *options):
        command = ["consume", topic, "-g", topic, "-f", "--client", client, "-b", bootstrap, *options]
        self._process = subprocess.Popen(
            [sys.executable, "-c", HEARING_SIGNALS, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.stdout = self._process.stdout

    def end(self, number):
        """The exit code after a signal."""
        self._process.send_signal(number)
        return self._process.wait(60)

    def ended(self):
        """The exit code and what was said, once it has ended by itself."""
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
    """What the group has committed in partition 0; None for nothing."""

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
        while committed() != 3:
            pass
        fill(odradek, topic, range(3, 5))
        while committed() != 5:
            pass


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
        while committed() != 3:
            pass
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
