"""The systemd unit is valid, and gives the broker enough time to stop."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from odradek.coordinator.configs.layers import BrokerLayers

UNIT = Path(__file__).parents[2] / "docker" / "systemd" / "odradek.service"
PROGRAM = "/opt/odradek/bin/odradek"


@pytest.fixture(scope="module")
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser


def test_it_waits_for_the_notification_and_for_the_drain(unit):
    service = unit["Service"]
    drain_ms = BrokerLayers({}).values["odradek.drain.timeout.ms"]
    assert service["Type"] == "notify"
    assert isinstance(drain_ms, int)
    assert int(service["TimeoutStopSec"].removesuffix("s")) * 1000 > drain_ms
    assert service["KillMode"] == "mixed"  # the nodes of --brokers drain in turn, as the supervisor signals them
    assert service["ExecStart"].startswith(f"{PROGRAM} serve ")


def test_systemd_takes_it(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("NO SYSTEMD: systemd-analyze is not installed")
    installed = tmp_path / UNIT.name
    installed.write_text(UNIT.read_text().replace(PROGRAM, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(installed)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
