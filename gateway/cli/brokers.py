"""`odradek serve --brokers N`: a cluster on this machine, whose nodes are child processes."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click
import trio

from odradek.gateway.cli.errors import CliError
from odradek.gateway.config.listeners import MAX_PORT
from odradek.gateway.supervision.layout import NodePlan, VotersError, addresses_of, plan, properties_of
from odradek.gateway.supervision.supervisor import NodeStartError, SupervisedNode, Supervisor, node_command
from odradek.storage_backends.directories import make_directory


def serve_brokers(
    brokers: int,
    data: Path,
    listen: tuple[str, int],
    metrics: tuple[str, int] | None,
    settings: Sequence[tuple[str, str]],
    arguments: Sequence[str],
    ready_line: Callable[[str, str], str],
) -> None:
    """Run the nodes until a signal; prints `ready_line(bootstrap, place)` when all of them serve.

    The ports for clients are that of `listen` and the following ones. Those of the controllers come after them, and
    stay the same at later starts; ports for clients leave them out. The ports for metrics are that of `metrics` and the
    following ones. Log lines have the node's id. Raises CliError.
    """
    host, port = listen
    if host in ("", "0.0.0.0", "::"):  # noqa: S104 - refused, not bound
        problem = f"with --brokers, --listen needs an address that clients reach, not {host or 'an empty one'}"
        raise click.BadParameter(problem, param_hint="--listen")
    try:
        ports, controllers = addresses_of(brokers, data, host, port)
    except VotersError as error:
        raise CliError(str(error)) from error
    if port == 0 or max(*ports, *[each for _, each in controllers]) > MAX_PORT:
        raise click.BadParameter("with --brokers, --listen needs a port with as many above it", param_hint="--listen")
    if metrics is not None and (metrics[1] == 0 or metrics[1] + brokers > 65536):
        raise click.BadParameter("with --brokers, --metrics needs a port with as many above it", param_hint="--metrics")
    nodes = plan(data, host, ports, controllers, dict(settings))
    make_directory(data)
    supervised = [
        SupervisedNode(each, node_command(_written(data, each), [*arguments, *_of_node(each.node_id, metrics)]))
        for each in nodes
    ]
    bootstrap = ",".join([f"[{host}]:{each}" if ":" in host else f"{host}:{each}" for each in ports])
    supervisor = Supervisor(supervised, lambda: click.echo(ready_line(bootstrap, str(data))))
    try:
        trio.run(supervisor.run)
    except* NodeStartError as group:
        raise CliError(f"{group.exceptions[0]}; its log above says why") from group


def _of_node(node_id: int, metrics: tuple[str, int] | None) -> list[str]:
    """The options that are different for each node."""
    own = ["--log-node", str(node_id)]
    return own if metrics is None else [*own, "--metrics", f"{metrics[0]}:{metrics[1] + node_id - 1}"]


def _written(data: Path, node: NodePlan) -> Path:
    file = properties_of(data, node.node_id)
    node.write(file)
    return file
