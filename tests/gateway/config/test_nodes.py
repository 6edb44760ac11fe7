"""A node's part in its cluster: roles, quorum and listeners, checked as Kafka 4.3.1 checks them.

The messages are Kafka's own, recorded from `kafka.Kafka` of that version for the same settings.
"""

import pytest

from odradek.gateway.config import ConfigError, Endpoint, NodeConfig, Voter, load_config

COMBINED = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:19093",
}
BROKER = COMBINED | {
    "process.roles": "broker",
    "controller.quorum.voters": "2@h:1",
    "listeners": "PLAINTEXT://127.0.0.1:19092",
}
THREE = "1@one:9093,2@two:9093,3@[::1]:9093"


def node(settings: dict[str, str | None]) -> NodeConfig:
    return load_config(None, {name: text for name, text in settings.items() if text is not None}, {}).node


def test_nothing_at_all_is_a_cluster_of_one():
    alone = node({})
    assert (alone.node_id, alone.is_broker, alone.is_controller, alone.is_alone) == (1, True, True, True)
    assert alone.voters == (Voter(1, "", 0),)
    assert alone.controller_listeners == ()


def test_a_combined_node_of_three():
    one = node(COMBINED | {"controller.quorum.voters": THREE})
    assert one.voters == (Voter(1, "one", 9093), Voter(2, "two", 9093), Voter(3, "::1", 9093))
    assert not one.is_alone
    assert one.listeners == one.advertised_listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 19092),)
    assert one.controller_listeners == one.advertised_controller_listeners
    assert one.controller_listeners == (Endpoint("CONTROLLER", "127.0.0.1", 19093),)
    assert one.inter_broker_listener_name == "PLAINTEXT"


def test_a_broker_that_is_no_controller():
    broker = node(BROKER | {"node.id": "7", "controller.quorum.voters": THREE})
    assert (broker.is_broker, broker.is_controller, broker.is_alone) == (True, False, False)
    assert [voter.node_id for voter in broker.voters] == [1, 2, 3]
    assert broker.controller_listeners == ()


def test_a_broker_may_know_servers_instead_of_voters():
    broker = node(
        BROKER | {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": "one:9093,[::1]:9093"}
    )
    assert (broker.voters, broker.bootstrap_servers) == ((), (("one", 9093), ("::1", 9093)))
    assert not broker.is_alone


def test_a_controller_that_is_no_broker():
    controller = node(COMBINED | {"process.roles": "controller", "listeners": "CONTROLLER://0.0.0.0:19093"})
    assert (controller.is_broker, controller.is_controller) == (False, True)
    assert controller.listeners == ()
    assert controller.controller_listeners == (Endpoint("CONTROLLER", "0.0.0.0", 19093),)
    assert controller.advertised_controller_listeners == (Endpoint("CONTROLLER", "", 19093),)


def test_kafkas_sample_of_one_node_names_itself():
    settings = COMBINED | {
        "controller.quorum.voters": None,
        "controller.quorum.bootstrap.servers": "localhost:19093",
    }
    founder = node(settings)
    assert founder.founds_quorum("")
    assert not founder.is_alone
    assert founder.voters == ()


@pytest.mark.parametrize(
    ("listener", "advertised", "server", "founds"),
    [
        ("node-1:9093", None, "node-1:9093", True),
        ("node-2:9093", None, "node-1:9093", False),
        ("node-1:9093", None, "node-1:9094", False),
        ("0.0.0.0:9093", "node-1:9093", "NODE-1:9093", True),
        ("0.0.0.0:9093", "node-2:9093", "node-1:9093", False),
        (":9093", None, "localhost:9093", True),
        (":9093", None, "Machine:9093", True),
        (":9093", None, "node-of-another-name:9093", False),
        ("127.0.0.1:9093", None, "localhost:9093", True),
    ],
    ids=[
        "name",
        "other-name",
        "other-port",
        "advertised",
        "advertised-otherwise",
        "every-interface",
        "machine",
        "other-machine",
        "loopback",
    ],
)
def test_a_controller_founds_a_quorum_where_the_one_address_is_its_own_by_name_and_port(
    listener: str, advertised: str | None, server: str, founds: bool
):
    settings = COMBINED | {
        "controller.quorum.voters": None,
        "controller.quorum.bootstrap.servers": server,
        "listeners": f"PLAINTEXT://:9092,CONTROLLER://{listener}",
        "advertised.listeners": advertised and f"PLAINTEXT://a:9092,CONTROLLER://{advertised}",
    }
    assert node(settings).founds_quorum("machine") is founds


@pytest.mark.parametrize("servers", ["a:1", "a:1,b:2,c:3", "a:1,localhost:19093"])
def test_a_controller_may_have_bootstrap_servers(servers: str):
    settings = COMBINED | {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": servers}
    joins = node(settings)
    assert not joins.founds_quorum("")
    assert not joins.is_alone
    assert len(joins.bootstrap_servers) == len(servers.split(","))


def test_controllers_talk_in_plain_text_where_no_protocol_is_mapped():
    assert node(COMBINED | {"listener.security.protocol.map": None}).controller_listeners


def test_brokers_may_have_a_listener_of_their_own():
    settings = COMBINED | {
        "listeners": "PLAINTEXT://:1,CONTROLLER://:2,other://:3",
        "inter.broker.listener.name": "other",
        "advertised.listeners": "PLAINTEXT://a:1,OTHER://b:3,CONTROLLER://c:2",
    }
    own = node(settings)
    assert own.inter_broker_listener_name == "OTHER"
    assert own.advertised_controller_listeners == (Endpoint("CONTROLLER", "c", 2),)
    assert own.advertised_listeners == (Endpoint("PLAINTEXT", "a", 1), Endpoint("OTHER", "b", 3))


def test_listeners_that_are_not_named_are_not_advertised():
    """Those for controllers are, as in Kafka."""
    settings = COMBINED | {
        "listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://0.0.0.0:2,OTHER://0.0.0.0:3",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OTHER:PLAINTEXT",
        "advertised.listeners": "PLAINTEXT://a:1",
    }
    own = node(settings)
    assert [endpoint.name for endpoint in own.listeners] == ["PLAINTEXT", "OTHER"]
    assert own.advertised_listeners == (Endpoint("PLAINTEXT", "a", 1),)
    assert own.advertised_controller_listeners == (Endpoint("CONTROLLER", "", 2),)
    with pytest.raises(ConfigError, match=r"currently configured listeners are PLAINTEXT \("):
        node(settings | {"inter.broker.listener.name": "OTHER"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            COMBINED | {"controller.quorum.voters": "2@127.0.0.1:19093,3@h:1"},
            "If process.roles contains the 'controller' role, the node id 1 must be included in the set of voters "
            "controller.quorum.voters=Set(2, 3)",
        ),
        (
            COMBINED | {"listeners": "PLAINTEXT://127.0.0.1:19092"},
            "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when "
            "running the KRaft controller role",
        ),
        (
            COMBINED | {"controller.listener.names": "CONTROLLER,OTHER"},
            "controller.listener.names must only contain values appearing in the 'listeners' configuration when "
            "running the KRaft controller role",
        ),
        (
            COMBINED | {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:19092"},
            "If process.roles contains just the 'broker' role, the node id 1 must not be included in the set of voters "
            "controller.quorum.voters=Set(1)",
        ),
        (
            BROKER | {"controller.quorum.auto.join.enable": "true"},
            "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
        ),
        (
            BROKER | {"listeners": COMBINED["listeners"]},
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when "
            "running KRaft with just the broker role",
        ),
        (
            BROKER | {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "Controller listener with name CONTROLLER defined in controller.listener.names not found in "
            "listener.security.protocol.map  (an explicit security mapping for each controller listener is required if "
            "listener.security.protocol.map is non-empty, or if there are security protocols other than PLAINTEXT in "
            "use)",
        ),
        (
            BROKER | {"controller.quorum.voters": None},
            "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
            "controllers or controller.quorum.voters must contain a parseable set of controllers.",
        ),
        (
            COMBINED | {"process.roles": "controller"},
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        ),
        (
            COMBINED | {"process.roles": "controller", "listeners": "PLAINTEXT://127.0.0.1:19092"},
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        ),
        (
            COMBINED | {"listeners": "CONTROLLER://127.0.0.1:19093"},
            "There must be at least one broker advertised listener. Perhaps all listeners appear in "
            "controller.listener.names?",
        ),
        (
            COMBINED | {"inter.broker.listener.name": "OTHER"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            "based on currently configured listeners are PLAINTEXT",
        ),
        (
            COMBINED | {"inter.broker.listener.name": "CONTROLLER"},
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options "
            "based on currently configured listeners are PLAINTEXT",
        ),
        (
            COMBINED | {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        (
            COMBINED | {"process.roles": "broker,zookeeper"},
            "Invalid value zookeeper for configuration process.roles: String must be one of: broker, controller",
        ),
    ],
)
def test_what_makes_no_node_is_refused_in_kafkas_words(settings: dict[str, str | None], message: str):
    with pytest.raises(ConfigError) as refused:
        node(settings)
    assert str(refused.value).removesuffix(" (command line)") == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"controller.quorum.voters": "1@a:1,1@b:2"}, "controller.quorum.voters names a node twice"),
        ({"listeners": "PLAINTEXT://h:1,CONTROLLER://h:1"}, "each listener must have a different port"),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"},
            "CONTROLLER uses SSL; this version serves only PLAINTEXT",
        ),
        ({"advertised.listeners": "PLAINTEXT://a:1,CONTROLLER://0.0.0.0:2"}, "nonroutable meta-address 0.0.0.0"),
        ({"advertised.listeners": "CONTROLLER://a:2"}, "There must be at least one broker advertised listener"),
        ({"inter.broker.listener.name": ""}, "inter.broker.listener.name: the listener name is empty"),
    ],
)
def test_what_else_is_refused(settings: dict[str, str | None], message: str):
    with pytest.raises(ConfigError, match=r".* \(command line\)$") as refused:
        node(COMBINED | settings)
    assert message in str(refused.value)


def test_internal_topics_of_a_cluster_are_replicated_as_kafkas():
    def factors(settings: dict[str, str | None]) -> tuple[object, object]:
        values = load_config(None, {name: text for name, text in settings.items() if text is not None}, {}).values
        return values["offsets.topic.replication.factor"], values["transaction.state.log.min.isr"]

    assert factors({}) == factors(COMBINED) == (1, 1)
    assert factors(COMBINED | {"controller.quorum.voters": THREE}) == factors(BROKER) == (3, 2)
    servers = {"controller.quorum.voters": None, "controller.quorum.bootstrap.servers": "a:9093,b:9093,c:9093"}
    assert factors(COMBINED | servers) == (3, 2)
    assert factors(COMBINED | servers | {"controller.quorum.bootstrap.servers": "a:9093"}) == (1, 1)
    assert factors(BROKER | {"offsets.topic.replication.factor": "2"}) == (2, 2)
