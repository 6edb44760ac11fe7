"""A node's role in its cluster: its roles, its controllers, and the use of each listener (KIP-500, KIP-853).

    process.roles            listeners                            controller.quorum.voters
    broker,controller        of brokers and of controllers        with this node
    broker                   of brokers alone                     without this node
    controller               of controllers alone                 with this node

Without `controller.quorum.voters`, the voters are stored in the metadata log (`kraft.version` 1), and
`controller.quorum.bootstrap.servers` lists controllers from which the log is fetched. A controller starts such a quorum
if this setting contains its own address alone; all others follow, and become voters when an operator adds them, or by
themselves with `controller.quorum.auto.join.enable`.

A node without any of these settings is a cluster of one: both roles, itself the only voter, no listener for
controllers. The rules and their messages are Kafka's.
"""

from collections.abc import Sequence
from typing import Final

from odradek.coordinator.configs.layers import BrokerLayers
from odradek.gateway.config.errors import ConfigError
from odradek.gateway.config.listeners import (
    Endpoint,
    advertised,
    check_ports,
    check_protocols,
    parse_endpoints,
)
from odradek.gateway.config.texts import optional, texts
from odradek.wire.values import immutable

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
PLAINTEXT: Final = "PLAINTEXT"
"""`security.inter.broker.protocol`; any other value is refused as a protection that is not implemented."""

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

_ROLES: Final = "process.roles"
_VOTERS: Final = "controller.quorum.voters"
_BOOTSTRAP: Final = "controller.quorum.bootstrap.servers"
_AUTO_JOIN: Final = "controller.quorum.auto.join.enable"
_CONTROLLER_NAMES: Final = "controller.listener.names"
_INTER_BROKER: Final = "inter.broker.listener.name"
_PROTOCOL_MAP: Final = "listener.security.protocol.map"


@immutable
class Voter:
    """A controller of the quorum, and the address at which other controllers reach it."""

    node_id: int
    host: str
    port: int


@immutable
class NodeConfig:
    """A node's role in its cluster.

    `voters` are the controllers; in a cluster of one, this node alone (with the address of its listener for
    controllers, or an empty one); empty if only `bootstrap_servers` is set. `listeners` are for clients and brokers,
    `controller_listeners` for connections of controllers, and of brokers to controllers.
    """

    node_id: int
    is_broker: bool
    is_controller: bool
    voters: tuple[Voter, ...]
    bootstrap_servers: tuple[tuple[str, int], ...]
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    controller_listeners: tuple[Endpoint, ...]
    advertised_controller_listeners: tuple[Endpoint, ...]
    controller_listener_names: tuple[str, ...]
    inter_broker_listener_name: str

    @property
    def is_alone(self) -> bool:
        """True if this node is the whole quorum, which then needs no network."""
        return self.is_controller and [voter.node_id for voter in self.voters] == [self.node_id]

    def is_for_nodes(self, listener: str) -> bool:
        """True if a listener is for the cluster's nodes alone, as far as the settings tell."""
        is_shared = {endpoint.name for endpoint in self.listeners} == {self.inter_broker_listener_name}
        return listener in self.controller_listener_names or (
            listener == self.inter_broker_listener_name and not is_shared
        )

    def founds_quorum(self, machine: str) -> bool:
        """True if the only bootstrap server is this controller; then it starts a new quorum if its log is empty.

        `machine` is the host name of a listener on all interfaces. Another controller may have the same port on another
        machine, so the host is compared too.
        """
        if not self.is_controller or self.voters or len(self.bootstrap_servers) != 1:
            return False
        [(host, port)] = self.bootstrap_servers
        bound, public = self.controller_listeners[0], self.advertised_controller_listeners[0]
        names = {bound.host.lower(), public.host.lower() or machine.lower()}
        if not public.host or names & set(_LOOPBACK):
            names |= set(_LOOPBACK)
        return port == bound.port and host.lower() in names


def node_of(layers: BrokerLayers, node_id: int) -> NodeConfig:
    """Check and convert the settings of the node. Raises ConfigError."""
    roles = texts(layers, "process.roles")
    is_broker, is_controller = BROKER in roles, CONTROLLER in roles
    names = tuple(name.upper() for name in texts(layers, "controller.listener.names"))
    every = parse_endpoints("listeners", texts(layers, "listeners"))
    check_ports(every)
    check_protocols(every, _protocols(layers, names))
    listeners = tuple(endpoint for endpoint in every if endpoint.name not in names)
    controller_listeners = tuple(endpoint for endpoint in every if endpoint.name in names)
    wanted = parse_endpoints("advertised.listeners", texts(layers, "advertised.listeners"))
    if layers.values[_AUTO_JOIN] and not is_controller:
        raise ConfigError(f"{_AUTO_JOIN} is only supported when {_ROLES} contains the 'controller' role.", _AUTO_JOIN)
    voters, servers = _voters(layers), _servers(layers)
    _check_quorum(node_id, roles, voters, servers)
    if is_controller:
        _check_controller(layers, names, listeners, controller_listeners, is_broker=is_broker)
        if not voters and not servers:
            own = controller_listeners[0] if controller_listeners else Endpoint("", "", 0)
            voters = (Voter(node_id, own.host, own.port),)
    else:
        _check_broker_alone(layers, names, controller_listeners)
    public = advertised(listeners, _of(wanted, names, controllers=False))
    if is_broker and not public:
        raise ConfigError(
            f"There must be at least one broker advertised listener. Perhaps all listeners appear in "
            f"{_CONTROLLER_NAMES}?",
            "advertised.listeners" if listeners else "listeners",
        )
    node = NodeConfig(
        node_id=node_id,
        is_broker=is_broker,
        is_controller=is_controller,
        voters=voters,
        bootstrap_servers=servers,
        listeners=listeners,
        advertised_listeners=public,
        controller_listeners=controller_listeners,
        advertised_controller_listeners=_advertised_controllers(
            controller_listeners, _of(wanted, names, controllers=True)
        ),
        controller_listener_names=names,
        inter_broker_listener_name=(optional(layers, "inter.broker.listener.name") or PLAINTEXT).upper(),
    )
    _check_inter_broker(layers, node)
    return node


def _protocols(layers: BrokerLayers, controller_names: Sequence[str]) -> tuple[str, ...]:
    """The map from listeners to protocols. If it is not set, controllers' listeners use PLAINTEXT, as in Kafka."""
    mapped = texts(layers, "listener.security.protocol.map")
    return mapped if _PROTOCOL_MAP in layers.static else (*mapped, *(f"{name}:PLAINTEXT" for name in controller_names))


def _voters(layers: BrokerLayers) -> tuple[Voter, ...]:
    voters: list[Voter] = []
    listed = texts(layers, "controller.quorum.voters")
    for text in listed:
        number, _, address = text.partition("@")
        host, _, port = address.rpartition(":")
        voters.append(Voter(int(number), host.strip("[]"), int(port)))
    if len({voter.node_id for voter in voters}) < len(voters):
        raise ConfigError(
            f"{_VOTERS} names a node twice: {','.join(texts(layers, 'controller.quorum.voters'))}", _VOTERS
        )
    return tuple(voters)


def _servers(layers: BrokerLayers) -> tuple[tuple[str, int], ...]:
    pairs = [text.rpartition(":") for text in texts(layers, "controller.quorum.bootstrap.servers")]
    return tuple((host.strip("[]"), int(port)) for host, _, port in pairs)


def _of(endpoints: Sequence[Endpoint], names: Sequence[str], *, controllers: bool) -> tuple[Endpoint, ...] | None:
    """Those of `advertised.listeners` for controllers, or for brokers; None if the setting is not set."""
    return tuple(endpoint for endpoint in endpoints if (endpoint.name in names) is controllers) if endpoints else None


def _advertised_controllers(
    listeners: tuple[Endpoint, ...], wanted: tuple[Endpoint, ...] | None
) -> tuple[Endpoint, ...]:
    """The addresses of the listeners for controllers, for one that `wanted` leaves out its own.

    On all interfaces the host is empty, for the machine's name.
    """
    wildcards = ("0.0.0.0", "::")  # noqa: S104 - not bound
    bound = [Endpoint(each.name, "" if each.host in wildcards else each.host, each.port) for each in listeners]
    named = [endpoint.name for endpoint in wanted or ()]
    return advertised(listeners, (*(wanted or ()), *(each for each in bound if each.name not in named)))


# Rules


def _check_quorum(
    node_id: int,
    roles: Sequence[str],
    voters: Sequence[Voter],
    servers: Sequence[tuple[str, int]],
) -> None:
    """Check that controllers are configured; with `voters`, that this node is one if and only if it is a controller.

    Raises ConfigError.
    """
    both = BROKER in roles and CONTROLLER in roles
    if not voters and not servers and not both:  # both roles and no quorum settings: a cluster of one
        raise ConfigError(
            f"If using {_ROLES}, either {_BOOTSTRAP} must contain the set of bootstrap controllers or {_VOTERS} must "
            "contain a parseable set of controllers.",
            _ROLES,
        )
    ids = [voter.node_id for voter in voters]
    shown = f"{_VOTERS}=Set({', '.join(map(str, ids))})"
    if CONTROLLER in roles and ids and node_id not in ids:
        raise ConfigError(
            f"If {_ROLES} contains the 'controller' role, the node id {node_id} must be included in the set of voters "
            f"{shown}",
            _VOTERS,
        )
    if CONTROLLER not in roles and node_id in ids:
        raise ConfigError(
            f"If {_ROLES} contains just the 'broker' role, the node id {node_id} must not be included in the set of "
            f"voters {shown}",
            _VOTERS,
        )


def _check_controller(
    layers: BrokerLayers,
    names: Sequence[str],
    listeners: Sequence[Endpoint],
    controller_listeners: Sequence[Endpoint],
    *,
    is_broker: bool,
) -> None:
    if not is_broker and listeners:
        raise ConfigError(
            f"The listeners config must only contain KRaft controller listeners from {_CONTROLLER_NAMES} when "
            f"{_ROLES}=controller",
            "listeners",
        )
    needs_one = (
        not is_broker
        or texts(layers, "controller.quorum.voters")
        or texts(layers, "controller.quorum.bootstrap.servers")
    )
    if needs_one and not controller_listeners:
        raise ConfigError(
            f"{_CONTROLLER_NAMES} must contain at least one value appearing in the 'listeners' configuration when "
            "running the KRaft controller role",
            _CONTROLLER_NAMES if _CONTROLLER_NAMES in layers.static else "listeners",
        )
    if needs_one and len(controller_listeners) < len(set(names)):
        raise ConfigError(
            f"{_CONTROLLER_NAMES} must only contain values appearing in the 'listeners' configuration when running the "
            "KRaft controller role",
            _CONTROLLER_NAMES,
        )


def _check_broker_alone(layers: BrokerLayers, names: Sequence[str], controller_listeners: Sequence[Endpoint]) -> None:
    if controller_listeners:
        raise ConfigError(
            f"{_CONTROLLER_NAMES} must not contain a value appearing in the 'listeners' configuration when running "
            "KRaft with just the broker role",
            "listeners",
        )
    first = Endpoint(names[0], "", 0)
    mapped = [entry.rpartition(":")[0].strip().upper() for entry in _protocols(layers, names)]
    if first.name not in mapped:
        raise ConfigError(
            f"Controller listener with name {first.name} defined in {_CONTROLLER_NAMES} not found in {_PROTOCOL_MAP}  "
            "(an explicit security mapping for each controller listener is required if "
            f"{_PROTOCOL_MAP} is non-empty, or if there are security protocols other than PLAINTEXT in use)",
            _PROTOCOL_MAP,
        )
    check_protocols((first,), _protocols(layers, names), _CONTROLLER_NAMES)


def _check_inter_broker(layers: BrokerLayers, node: NodeConfig) -> None:
    """Check that the brokers' listener is advertised; only a cluster of one can do without. Raises ConfigError."""
    if _INTER_BROKER in layers.static and "security.inter.broker.protocol" in layers.static:
        raise ConfigError(
            f"Only one of {_INTER_BROKER} and security.inter.broker.protocol should be set.", _INTER_BROKER
        )
    if _INTER_BROKER in layers.static and not optional(layers, "inter.broker.listener.name"):
        raise ConfigError(f"{_INTER_BROKER}: the listener name is empty", _INTER_BROKER)
    names = [endpoint.name for endpoint in node.advertised_listeners]
    must_exist = _INTER_BROKER in layers.static or not node.is_alone
    if node.is_broker and must_exist and node.inter_broker_listener_name not in names:
        raise ConfigError(
            f"{_INTER_BROKER} must be a listener name defined in advertised.listeners. The valid options based on "
            f"currently configured listeners are {','.join(names)}",
            _INTER_BROKER,
        )
