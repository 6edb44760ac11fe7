"""Ports for brokers under test: no two brokers get the same, in any processes, whether they run or not."""

import socket
import subprocess
import sys

import pytest

from odradek.gateway.testing import ports
from odradek.gateway.testing.ports import free_ports

IN_A_ROW = "from odradek.gateway.testing.ports import free_ports_in_a_row; print(free_ports_in_a_row(3)[0])"
ONE_OF = """
from odradek.gateway.testing import ports
ports.FIRST_PORT, ports.LAST_PORT, ports.ATTEMPTS = {}, {}, 50
try:
    print(ports.free_ports(1)[0])
except OSError:
    print("none")
"""


def in_another_process(code: str) -> str:
    """Runs code in another process and returns its output; its reservations end with the process."""
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Three ports, the only ones that are handed out."""
    first = int(in_another_process(IN_A_ROW))
    monkeypatch.setattr(ports, "FIRST_PORT", first)
    monkeypatch.setattr(ports, "LAST_PORT", first + 4)
    monkeypatch.setattr(ports, "ATTEMPTS", 200)
    return [first, first + 1, first + 2]


def test_no_port_is_given_twice(few: list[int]) -> None:
    assert sorted(free_ports(2) + free_ports(1)) == few
    with pytest.raises(OSError, match="no free port"):
        free_ports(1)


def test_a_port_at_which_something_listens_is_not_given(few: list[int]) -> None:
    with socket.create_server(("127.0.0.1", few[1])):
        assert sorted(free_ports(2)) == [few[0], few[2]]


def test_another_process_is_given_other_ports(few: list[int]) -> None:
    another = ONE_OF.format(few[0], few[0] + 4)
    [left] = set(few) - set(free_ports(2))
    assert in_another_process(another) == str(left)
    free_ports(1)
    assert in_another_process(another) == "none"


def test_a_broker_can_listen_at_its_port() -> None:
    [port] = free_ports(1)
    with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
        pass
