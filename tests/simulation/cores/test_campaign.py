"""The command that runs many simulations of the cores: its output and its end."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import campaign
import pytest
import quorum_mutants

FOUND = [
    ("quorum-3", 400001),
    ("voters-3", 400037),
    ("replication", 400004),
    ("replication", 400057),
    ("deleting-replication", 730015),
    ("deleting-replication", 750014),
    ("deleting-replication", 750015),
    ("replication", 790170),
]
"""Seeds by which campaigns have found errors: those of a leader that is slow, of a proposal repeated, of a disk cut, of
an image that was sent to the process before a restart, of an earlier leader that ends inside the batch in which its
leader's log begins, of a first commit that failed, and of a leader that learns late of its epoch.
"""
COMMAND = [sys.executable, str(Path(campaign.__file__))]


def test_the_kinds_share_the_hours(capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign.main(["--hours", "0.03", "--seconds", "2", "--kinds", "quorum-3,replication"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^quorum-3: 2 runs, seeds 0 to 1, 0\.03 simulated hours, .* 0 violations$", said, re.MULTILINE)
    assert re.search(r"^replication: 8 runs, seeds 0 to 7, 0\.01 simulated hours", said, re.MULTILINE)
    assert re.search(r"\d+ elections, [0-9,]+ acknowledged", said)


def test_a_violation_is_named_with_what_repeats_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum_mutants.leader_counts_unsynced(monkeypatch)
    assert campaign.main(["--runs", "3", "--seconds", "15", "--kinds", "quorum-3", "--from-seed", "1"]) == 1
    said = capsys.readouterr().out
    again = re.search(r"to see it again: python (\S+) (.*)", said)
    assert again, said
    assert campaign.main(again[2].split()) == 1
    repeated = capsys.readouterr().out
    assert re.findall("^VIOLATION.*", repeated, re.MULTILINE) == re.findall("^VIOLATION.*", said, re.MULTILINE)[:1]


@pytest.mark.parametrize(("kind", "seed"), FOUND)
def test_what_a_campaign_has_found_holds(kind: str, seed: int) -> None:
    assert campaign.carry_out(campaign.Run(kind, seed, 60)).failure is None


def test_an_error_of_a_core_counts_as_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(seed: int, seconds: int) -> None:
        raise ZeroDivisionError(seed, seconds)

    monkeypatch.setitem(campaign.KINDS, "replication", fails)
    outcome = campaign.carry_out(campaign.Run("replication", 3, 7))
    assert outcome.failure is not None
    assert "ZeroDivisionError: (3, 7)" in outcome.failure


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_ends_it_with_the_summary(jobs: str) -> None:
    options = ["--hours", "1000", "--seconds", "2", "--kinds", "replication", "--jobs", jobs]
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "simulated hours in 1 runs, 0 violations" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
    assert process.returncode == 0
    assert re.search(r"^replication: \d+ runs, seeds 0 to \d+", said, re.MULTILINE)
