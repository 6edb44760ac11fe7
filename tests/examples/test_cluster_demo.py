"""`make cluster-demo`, for a shorter time; and that its audit can fail."""

import subprocess
import sys

import pytest

from examples.cluster import __main__ as demo
from examples.cluster.load import Sends
from examples.flights.processes import ROOT
from odradek.gateway.testing.history.operations import Operation, Outcome, Read, Sent


@pytest.mark.timeout(240)
def test_a_killed_leader_loses_nothing(tmp_path):
    command = [sys.executable, "-m", "examples.cluster", "--seconds", "2", "--rate", "300", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "audit: 0 lost, 0 duplicated, 0 out of order" in done.stdout
    assert "kill -9 of broker" in done.stdout
    assert (tmp_path / "cluster.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("reads", "said"),
    [
        ([0, 2], "1 lost, 0 duplicated"),
        ([0, 1, 2], "0 lost, 0 duplicated, 0 out of order"),
        ([0, 2, 1], "2 out of order"),
    ],
)
def test_the_audit_tells_what_is_wrong(tmp_path, capsys, reads, said):
    key = (demo.TOPIC, 0)
    sends = Sends("p")
    sends.history = [
        Operation("p", Outcome.OK, (Sent(key, f"0:{number}", number),), number, number + 10) for number in range(3)
    ]
    sends.acknowledged = [(number / 10, 0.01) for number in range(3)]
    history = [Operation("consumer", Outcome.OK, [Read(key, each, f"0:{each}") for each in reads], 20, 30)]
    options = demo.parsed(["--output", str(tmp_path)])
    code = demo.Demo(options).audit(0.0, [sends], history, [0.2] * len(reads))
    assert code == (0 if reads == [0, 1, 2] else 1)
    assert said in capsys.readouterr().out
