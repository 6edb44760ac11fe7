"""A broker in this process, and the command line run against it without a shell."""

import socket
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from odradek.gateway.cli.clients.settings import CONFLUENT, KAFKA_PYTHON
from odradek.gateway.cli.main import cli
from odradek.testing import broker as running_broker

Odradek = Callable[..., Result]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """The address of a broker of this module's tests: other modules' tests replace parts of what it runs."""
    with running_broker(config={"num.partitions": "1"}) as broker:
        yield broker.bootstrap


@pytest.fixture
def odradek(bootstrap: str) -> Odradek:
    """Runs a command against the broker: `odradek("topics", "list")`."""
    runner = CliRunner(env={"ODRADEK_BOOTSTRAP": bootstrap})

    def run(*arguments: str, stdin: str | bytes | None = None, code: int = 0) -> Result:
        result = runner.invoke(cli, arguments, input=stdin, prog_name="odradek")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture(params=[KAFKA_PYTHON, CONFLUENT])
def client(request: pytest.FixtureRequest) -> str:
    """A value of `--client`: tests of `produce` and `consume` run with both."""
    return request.param


@pytest.fixture
def topic(odradek: Odradek, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions for this test alone."""
    test = f"{request.node.module.__name__}-{request.node.name}"
    name = "".join(letter if letter.isalnum() else "-" for letter in test)
    odradek("topics", "create", name, "--partitions", "2")
    return name


@pytest.fixture
def unused_port() -> int:
    """A port of the loopback interface without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def mute_listener() -> Iterator[str]:
    """An address that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"
