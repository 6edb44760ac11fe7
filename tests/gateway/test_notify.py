"""Readiness and stop notifications to the service manager, over a real datagram socket."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odradek.gateway.notify import READY, notify
from odradek.gateway.testing.ports import free_ports_in_a_row


def manager(address: str) -> socket.socket:
    """A service manager's socket."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(address)
    listening.settimeout(60)
    return listening


@contextmanager
def serving(
    folder: Path, notify_socket: str, *options: str, listen: str = "127.0.0.1:0"
) -> Iterator[subprocess.Popen[str]]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("ODRADEK_", "KAFKA_"))}
    process = subprocess.Popen(
        [sys.executable, "-m", "odradek", "serve", "--listen", listen, *(options or ("--storage", "memory://"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**clean, "NOTIFY_SOCKET": notify_socket},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_ready_when_it_serves_and_stopping_at_the_signal(tmp_path):
    with manager(str(tmp_path / "notify")) as receiver, serving(tmp_path, str(tmp_path / "notify")) as broker:
        state, status = receiver.recv(4096).decode().split("\n")
        assert state == "READY=1"
        address = status.removeprefix("STATUS=serving clients at ")
        host, port = address.rsplit(":", 1)
        socket.create_connection((host, int(port)), timeout=30).close()
        broker.send_signal(signal.SIGTERM)
        assert receiver.recv(4096).decode().startswith("STOPPING=1\n")
        assert broker.wait(60) == 0


def test_a_supervisor_notifies_once_for_all_its_nodes(tmp_path):
    path, port = str(tmp_path / "notify"), free_ports_in_a_row(3)[0]
    options = ("--brokers", "2", "--data", str(tmp_path / "data"))
    with (
        manager(path) as receiver,
        serving(tmp_path, path, *options, listen=f"127.0.0.1:{port}") as supervisor,
    ):
        assert receiver.recv(4096) == b"READY=1\nSTATUS=2 nodes serve"
        for each in (port, port + 1):
            socket.create_connection(("127.0.0.1", each), timeout=30).close()
        supervisor.send_signal(signal.SIGTERM)
        assert receiver.recv(4096) == b"STOPPING=1\nSTATUS=stopping 2 nodes in turn"
        supervisor.communicate(timeout=60)
        assert supervisor.returncode == 0
        receiver.setblocking(False)
        with pytest.raises(BlockingIOError):
            receiver.recv(4096)


def test_a_broker_whose_manager_is_gone_serves_all_the_same(tmp_path):
    with serving(tmp_path, str(tmp_path / "no-such-socket")) as broker:
        assert broker.stdout is not None
        assert " ready in " in broker.stdout.readline()
        broker.send_signal(signal.SIGTERM)
        _, log = broker.communicate(timeout=60)
    assert broker.returncode == 0
    assert f"cannot notify the service manager state=READY=1 socket={tmp_path}/no-such-socket (NOTIFY_SOCKET)" in log


def test_an_abstract_socket(monkeypatch: pytest.MonkeyPatch):
    name = f"odradek-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    with manager(f"\0{name}") as receiver:
        notify(READY, "as given")
        assert receiver.recv(4096) == b"READY=1\nSTATUS=as given"


def test_a_manager_that_reads_nothing_holds_nothing_up(tmp_path, monkeypatch: pytest.MonkeyPatch, caplog):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with manager(str(tmp_path / "notify")):
        while not caplog.messages:  # until the socket's queue is full
            notify(READY, "x" * 1000)
    assert "cause=[Errno 11]" in caplog.messages[0]


def test_without_a_manager_nothing_is_sent(monkeypatch: pytest.MonkeyPatch, caplog):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify(READY, "unheard")
    assert caplog.messages == []
