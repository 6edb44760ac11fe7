"""`odradek serve`: run a broker in the foreground. Imports neither kafka-python nor rich, to start fast."""

import errno
import faulthandler
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import click

from odradek.gateway.cli.assignment import Assignment
from odradek.gateway.cli.data_options import (
    DEFAULT_DATA,
    check_one,
    config_option,
    data_option,
    overrides_of,
    storage_option,
)
from odradek.gateway.cli.errors import CliError, EndedError
from odradek.gateway.cli.process_age import process_age_ms
from odradek.gateway.cli.signals import stop_noticed, stop_when_stdin_ends
from odradek.gateway.cli.visible import visible, visible_lines
from odradek.gateway.data_urls import local_path
from odradek.gateway.quick_import import collector_paused
from odradek.interpreter import UnsupportedInterpreterError, check_interpreter
from odradek.storage_backends.urls import masked_url

if TYPE_CHECKING:
    from odradek.gateway.config import BrokerConfig
    from odradek.gateway.process import Running

log = logging.getLogger(__name__)

DEFAULT_LISTEN = "127.0.0.1:9092"
LOG_FORMAT = "%(asctime)s.%(msecs)03dZ level=%(levelname)s{node} logger=%(name)s %(message)s"
LOG_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"

EPILOG = """\
\b
A setting is taken from the first of these that has it: options, ODRADEK_* variables, KAFKA_* variables as in Kafka's
official image, the file of --config, the default. The names are Kafka's; the file may be a server.properties.
A variable is a setting's name in capitals with _ for a dot: ODRADEK_LOG_RETENTION_HOURS or KAFKA_LOG_RETENTION_HOURS.
`odradek configs list` shows every setting, its default, and whether it has an effect.

\b
Examples:
  odradek serve
  odradek serve --data /var/lib/odradek --listen 0.0.0.0:9092 --advertise kafka.example.org:9092
  odradek serve --storage memory:// --listen 127.0.0.1:0
  odradek serve --config server.properties --set log.retention.hours=24
  odradek serve --brokers 3 --data /var/lib/odradek

\b
After SIGTERM or Ctrl-C, accepted requests are answered, then the process exits with 0. A second signal ends it at once.
Exit codes: 0 stopped, 1 could not start or failed (one line on stderr says why), 2 wrong usage.
"""


class Address(click.ParamType[tuple[str, int]]):
    """`HOST:PORT`, converted to a pair, without the brackets of an IPv6 address.

    Port 0, a free one, is allowed if `lowest_port` is 0.
    """

    name = "host:port"

    def __init__(self, lowest_port: int) -> None:
        self._lowest_port = lowest_port

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Split at the last colon; wrong usage if the port is not valid."""
        host, colon, port = str(value).rpartition(":")
        if not colon or not port.isdecimal() or not self._lowest_port <= int(port) < 65536:
            self.fail(f"{value!r} is not HOST:PORT", param, ctx)
        return host.removeprefix("[").removesuffix("]"), int(port)


def _text_of(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _end_with_stdin(_context: click.Context, _option: click.Parameter, wanted: object) -> None:
    if wanted:
        stop_when_stdin_ends()


@click.command("serve", epilog=EPILOG)
@click.option(
    "--listen",
    type=Address(0),
    help=f"The address to listen on; port 0 takes a free one. [env var: ODRADEK_LISTEN; default: {DEFAULT_LISTEN}]",
)
@click.option(
    "--advertise",
    type=Address(1),
    help="The address that clients are given to connect to. [env var: ODRADEK_ADVERTISE; default: that of --listen]",
)
@data_option("Directory of the data, created if missing")
@storage_option
@click.option(
    "--brokers",
    type=click.IntRange(1, 100),
    help="Run a cluster of this many nodes, as processes on this machine. Ports for clients are that of --listen and "
    "the next ones, for metrics that of --metrics and the next ones; data are in node-1, node-2, … of --data. A node "
    "that ends is started again.",
)
@click.option(
    "--metrics",
    type=Address(0),
    help="The address that serves Prometheus and health checks: /metrics, /health/live, /health/ready (pip install "
    "'odradek[metrics]'). [env var: ODRADEK_METRICS_LISTEN; default: none]",
)
@config_option
@click.option("--set", "settings", type=Assignment(), multiple=True, help="One setting by Kafka's name. Repeatable.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    envvar="ODRADEK_LOG_LEVEL",
    show_envvar=True,
    default="info",
    show_default=True,
    help="The lowest level that is logged, on stderr.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    envvar="ODRADEK_LOG_FORMAT",
    show_envvar=True,
    default="text",
    show_default=True,
    help="The format of the log; json writes one object a line, also for the line on stdout when the broker is ready.",
)
@click.option(
    "--until-stdin-ends",
    is_flag=True,
    hidden=True,
    expose_value=False,
    callback=_end_with_stdin,
    help="When standard input ends, stop as after SIGTERM.",
)
@click.option("--ready-message", hidden=True, help="A second line to print when the broker is ready.")
@click.option("--log-node", type=int, hidden=True, help="A node id for each log line, for nodes that share a log.")
def serve(
    *,
    listen: tuple[str, int] | None,
    advertise: tuple[str, int] | None,
    data: Path | None,
    storage: str | None,
    brokers: int | None,
    metrics: tuple[str, int] | None,
    file: Path | None,
    settings: Sequence[tuple[str, str]],
    log_level: str,
    log_format: str,
    ready_message: str | None,
    log_node: int | None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C. Prints one line once it is ready."""
    try:
        check_interpreter()
    except UnsupportedInterpreterError as error:
        raise CliError(str(error)) from error
    check_one(data, storage)
    as_json = log_format == "json"
    if brokers is not None:
        _check_alone(advertise=advertise, storage=storage, config=file)
        _serve_brokers(brokers, listen, metrics, data, settings, log_level, log_format)
        return
    _log_to_stderr(log_level, as_json=as_json, node_id=log_node)
    if sys.__stderr__ is not None:
        # If a signal such as SIGBUS ends the process, the log says where. Only the thread that got the signal is read:
        # the frames of a running thread change meanwhile, and reading them can end the process before all is printed.
        faulthandler.enable(sys.__stderr__, all_threads=False)
    overrides = dict(settings) | _overrides(listen, advertise, data, storage)
    if metrics is not None:
        overrides["odradek.metrics.listen"] = _text_of(metrics)
    try:
        if ready_message is not None and as_json:
            ready_message = _json_line(message=ready_message)
        # At once: the first process of a container is not even ended by a signal for which it has no handler.
        with stop_noticed() as stop:
            make_ready_line = _ready_document if as_json else ready_line
            _run(load(file, overrides), make_ready_line, ready_message, lambda: stop.number != 0)
    except CliError as error:
        if not as_json:
            raise
        event = "ended cause=%s" if isinstance(error, EndedError) else "cannot start cause=%s"
        log.error(event, error.format_message())  # noqa: TRY400 - as without JSON
        raise click.exceptions.Exit(error.exit_code) from error
    except Exception as error:
        if not as_json:
            raise
        log.exception("the broker failed")
        raise click.exceptions.Exit(1) from error


def _check_alone(**given: object) -> None:
    """Raise wrong usage for options that apply to one node only."""
    for name, value in given.items():
        if value is not None:
            raise click.UsageError(f"--brokers and --{name} exclude each other: each node has its own (see --set)")


def _serve_brokers(
    brokers: int,
    listen: tuple[str, int] | None,
    metrics: tuple[str, int] | None,
    data: Path | None,
    settings: Sequence[tuple[str, str]],
    log_level: str,
    log_format: str,
) -> None:
    from odradek.gateway.cli.brokers import serve_brokers
    from odradek.gateway.cli.output import counted

    as_json = log_format == "json"
    _log_to_stderr(log_level, as_json=as_json)
    if listen is None:
        listen = Address(0).convert(os.environ.get("ODRADEK_LISTEN", DEFAULT_LISTEN), None, None)
    directory = data or Path(os.environ.get("ODRADEK_DATA") or DEFAULT_DATA)
    if metrics is None and os.environ.get("ODRADEK_METRICS_LISTEN"):
        metrics = Address(0).convert(os.environ["ODRADEK_METRICS_LISTEN"], None, None)

    def ready(bootstrap: str, place: str) -> str:
        if as_json:
            return _json_line(message="ready", brokers=brokers, bootstrap=bootstrap, storage=place)
        first = bootstrap.partition(",")[0]
        return (
            f"odradek ready: {counted(brokers, 'broker')} at {bootstrap}, storing in {place}; "
            f"try: echo hello | odradek produce greetings --bootstrap {first}"
        )

    arguments = ["--log-level", log_level, "--log-format", log_format]
    serve_brokers(brokers, directory, listen, metrics, settings, arguments, ready)


def _log_to_stderr(level: str, *, as_json: bool, node_id: int | None = None) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(as_json=as_json, node_id=node_id))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _formatter(*, as_json: bool, node_id: int | None) -> logging.Formatter:
    if as_json:
        from odradek.gateway.cli.json_logs import JsonFormatter

        return JsonFormatter({} if node_id is None else {"node": node_id})
    node = "" if node_id is None else f" node={node_id}"
    formatter = TextFormatter(LOG_FORMAT.format(node=node), LOG_TIME_FORMAT)
    formatter.converter = time.gmtime
    return formatter


class TextFormatter(logging.Formatter):
    """A line for each record, in which clients' texts are `visible`. Only tracebacks, and records with a true attribute
    `several_lines` (of texts that are all our own), have more.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the method that it replaces
        """The line of a record."""
        line = super().formatMessage(record)
        return visible_lines(line) if getattr(record, "several_lines", False) else visible(line)

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - as in the method that it replaces
        """The traceback of a record."""
        return visible_lines(super().formatException(ei))


def _overrides(
    listen: tuple[str, int] | None, advertise: tuple[str, int] | None, data: Path | None, storage: str | None
) -> dict[str, str]:
    overrides: dict[str, str] = {}
    if listen is not None:
        overrides["listeners"] = f"PLAINTEXT://{_text_of(listen)}"
    if advertise is not None:
        overrides["advertised.listeners"] = f"PLAINTEXT://{_text_of(advertise)}"
    return overrides | overrides_of(data, storage)


def load(file: Path | None, overrides: dict[str, str]) -> "BrokerConfig":
    """The broker's configuration; without a setting of `listeners`, it listens on the loopback interface only."""
    with collector_paused():
        from odradek.gateway.config import ConfigError, load_config

    # Kafka listens on every interface by default; a broker without authentication should not.
    defaults = {"listeners": f"PLAINTEXT://{DEFAULT_LISTEN}"}
    try:
        return load_config(file, overrides, defaults=defaults)
    except ConfigError as error:
        raise CliError(str(error)) from error


def _run(
    config: "BrokerConfig",
    ready_line: "Callable[[BrokerConfig, Running], str]",
    ready_message: str | None,
    is_stopped: Callable[[], bool],
) -> None:
    with collector_paused():
        from odradek.gateway.errors import StartError
        from odradek.gateway.process import run_broker
        from odradek.storage_backends.interface import StoreError
        from odradek.storage_backends.opener import StoreUrlError

    ready = False

    def on_ready(running: "Running") -> None:
        nonlocal ready
        ready = True
        click.echo(ready_line(config, running))
        if ready_message is not None:
            click.echo(ready_message)

    try:
        run_broker(config, on_ready, is_stopped=is_stopped)
    except (StoreError, StoreUrlError, StartError) as error:
        raise (EndedError if ready else CliError)(str(error)) from error
    except OSError as error:
        if ready:  # not a failure to bind: let it show its traceback
            raise
        raise CliError(_bind_failure(config, error)) from error


def _bind_failure(config: "BrokerConfig", error: OSError) -> str:
    where = ", ".join(
        f"{endpoint.host or '*'}:{endpoint.port}" for endpoint in (*config.listeners, *config.node.controller_listeners)
    )
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen at {where}: the port is in use; choose another with --listen HOST:PORT"
    return f"cannot listen at {where}: {error.strerror or error}"


def ready_line(config: "BrokerConfig", running: "Running") -> str:
    """The line printed when clients can connect: the address, the storage, and a command to try."""
    from odradek.gateway.cli.main import VERSION

    age_ms, place = process_age_ms(), _place(config)
    ready = f"odradek {VERSION} ready in {age_ms:.0f} ms at {running.bootstrap}, storing in {place}"
    if not config.node.is_broker:
        return f"{ready}; a controller, which serves no clients"
    return f"{ready}; try: echo hello | odradek produce greetings --bootstrap {running.bootstrap}"


def _ready_document(config: "BrokerConfig", running: "Running") -> str:
    """As `ready_line`, in JSON."""
    from odradek.gateway.cli.main import VERSION

    return _json_line(
        message="ready",
        version=VERSION,
        ready_ms=round(process_age_ms()),
        bootstrap=running.bootstrap,
        storage=_place(config),
    )


def _json_line(**fields: object) -> str:
    """A line for stdout in the format of the log."""
    from odradek.gateway.cli.json_logs import line, utc

    now = utc(time.time())  # noqa: TID251 - the log takes its times from the same clock
    return line({"time": now, "level": "INFO", "logger": __name__, **fields})


def _place(config: "BrokerConfig") -> str:
    scheme, _, path = config.storage_url.partition("://")
    if scheme == "memory":
        return "memory (gone when it stops)"
    return local_path(unquote(path)) if scheme == "lmdb" else masked_url(config.storage_url)
