"""`odradek-health`, the health check of the image, asks a node's ports what they serve."""

import socket
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest
from gateway_brokers import ThreadBroker, free_port

SCRIPT = Path(__file__).parents[2] / "docker" / "odradek" / "bin" / "odradek-health"
Ports = tuple[int, int]


@pytest.fixture(scope="module")
def node() -> Iterator[Ports]:
    """The ports of a node for clients and for controllers."""
    clients, controllers = free_port(), free_port()
    with ThreadBroker(
        process_roles="broker,controller",
        controller_quorum_voters=f"1@127.0.0.1:{controllers}",
        listeners=f"PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controllers}",
    ):
        yield clients, controllers


@pytest.fixture
def health(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script, on a node whose settings are in no file."""
    loader = SourceFileLoader("odradek_health", str(SCRIPT))
    spec = spec_from_loader("odradek_health", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setenv("ODRADEK_CONFIG", str(tmp_path / "server.properties"))
    for name in ("KAFKA_PROCESS_ROLES", "ODRADEK_PROCESS_ROLES"):
        monkeypatch.delenv(name, raising=False)
    return module


Check = Callable[..., tuple[int, str]]


@pytest.fixture
def check(health: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    def check(*ports: int) -> tuple[int, str]:
        monkeypatch.setattr(health, "listening", lambda: [("127.0.0.1", port) for port in ports])
        return health.main(), capsys.readouterr().out

    return check


def test_a_port_that_serves_clients_is_healthy(node: Ports, check: Check):
    clients, controllers = node
    assert check(clients) == (0, f"127.0.0.1:{clients} answers\n")
    assert check(controllers, clients) == (0, f"127.0.0.1:{clients} answers\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert check(silent.getsockname()[1], clients) == (0, f"127.0.0.1:{clients} answers\n")


def test_a_port_for_controllers_is_not_enough_for_a_broker(node: Ports, check: Check):
    _, controllers = node
    assert check(controllers) == (1, f"127.0.0.1:{controllers}: serves controllers only\n")


@pytest.mark.parametrize("text", ["process.roles=controller", "process.roles = 'controller'\n", ""])
def test_a_port_for_controllers_is_enough_for_a_controller(
    node: Ports, check: Check, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _, controllers = node
    if text:
        (tmp_path / "server.properties").write_text(text)
    else:
        monkeypatch.setenv("KAFKA_PROCESS_ROLES", "controller")
    assert check(controllers) == (0, f"127.0.0.1:{controllers} answers\n")


def test_what_is_no_broker_is_unhealthy(check: Check):
    assert check() == (1, "nothing listens\n")
    port = free_port()
    assert check(port) == (1, f"127.0.0.1:{port}: [Errno 111] Connection refused\n")
