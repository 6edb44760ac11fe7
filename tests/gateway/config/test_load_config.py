"""Sources of settings, their precedence, and messages to the operator."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.coordinator.configs.protections import PROTECTIONS
from odradek.coordinator.configs.tables import BROKER_CONFIGS
from odradek.gateway.config import BrokerConfig, ConfigError, Endpoint, load_config
from odradek.gateway.config.sources import read_environment


def load(environ: Mapping[str, str] | None = None, file: Path | None = None, **overrides: str) -> BrokerConfig:
    return load_config(file, {name.replace("_", "."): text for name, text in overrides.items()}, environ or {})


def refusal(environ: Mapping[str, str] | None = None, file: Path | None = None, **overrides: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load(environ, file, **overrides)
    return str(refused.value)


def refusal_of(settings: Mapping[str, str]) -> str:
    with pytest.raises(ConfigError) as refused:
        load_config(None, settings, {})
    return str(refused.value)


@pytest.fixture
def server_properties(tmp_path: Path) -> Path:
    """A file like the one in Kafka's distribution."""
    file = tmp_path / "server.properties"
    file.write_text(
        "# see org.apache.kafka\n"
        "process.roles=broker,controller\n"
        "node.id=5\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        "inter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT\n"
        "log.dirs=/var/lib/kraft-combined-logs\n"
        "num.partitions=2\n"
        "log.retention.hours=168\n"
    )
    return file


class TestSources:
    def test_no_source_at_all_makes_a_broker(self):
        config = load()
        assert config.node_id == 1
        assert config.listeners == config.advertised_listeners == (Endpoint("PLAINTEXT", "", 9092),)
        assert config.values["num.partitions"] == 1
        assert config.storage_url == f"lmdb://{Path('odradek-data').absolute()}"

    def test_kafkas_own_file_makes_a_broker(self, server_properties: Path):
        config = load(file=server_properties)
        assert config.node_id == 5
        assert config.listeners == (Endpoint("PLAINTEXT", "", 9092),)
        assert config.advertised_listeners == (Endpoint("PLAINTEXT", "localhost", 9092),)
        assert config.storage_url == "lmdb:///var/lib/kraft-combined-logs"
        assert config.layers.static["log.retention.hours"] == "168"

    def test_precedence(self, server_properties: Path):
        environ = {"KAFKA_NUM_PARTITIONS": "3"}
        assert load(file=server_properties).values["num.partitions"] == 2
        assert load(environ, server_properties).values["num.partitions"] == 3
        environ["ODRADEK_NUM_PARTITIONS"] = "4"
        assert load(environ, server_properties).values["num.partitions"] == 4
        assert load(environ, server_properties, num_partitions="5").values["num.partitions"] == 5

    @pytest.mark.parametrize(
        "toml",
        ['"num.partitions" = 6\n', "num.partitions = 6\n", "[num]\npartitions = 6\n", "[num]\npartitions = '6'\n"],
    )
    def test_toml_in_every_notation(self, tmp_path: Path, toml: str):
        file = tmp_path / "broker.toml"
        file.write_text(toml)
        assert load(file=file).values["num.partitions"] == 6

    def test_toml_lists_and_booleans(self, tmp_path: Path):
        file = tmp_path / "broker.toml"
        file.write_text('auto.create.topics.enable = false\nlog.cleanup.policy = ["compact", "delete"]\n')
        config = load(file=file)
        assert config.auto_create_topics_enable is False
        assert config.values["log.cleanup.policy"] == ("compact", "delete")

    @pytest.mark.parametrize(
        ("variable", "name"),
        [
            ("KAFKA_NUM_PARTITIONS", "num.partitions"),
            ("KAFKA_LISTENER_NAME_A__B_SSL___X", "listener.name.a_b.ssl-x"),
            ("ODRADEK_STORAGE", "odradek.storage"),
            ("ODRADEK_LOG_RETENTION_MS", "log.retention.ms"),
        ],
    )
    def test_variables_become_names(self, variable: str, name: str):
        assert list(read_environment({variable: "x"})) == [name]

    @pytest.mark.parametrize("variable", ["KAFKA_HEAP_OPTS", "KAFKA_VERSION", "PATH", "ODRADEK_BENCHMARK_SECONDS"])
    def test_variables_that_are_no_settings(self, variable: str):
        assert read_environment({variable: "x"}) == {}

    @given(st.sampled_from(sorted(name for name in BROKER_CONFIGS if not name.startswith("odradek."))))
    def test_every_setting_can_be_given_as_the_official_image_takes_it(self, name: str):
        variable = "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
        assert list(read_environment({variable: "x"})) == [name]

    def test_unknown_settings_are_named_and_ignored(self, caplog: pytest.LogCaptureFixture):
        with caplog.at_level(logging.WARNING):
            load({"KAFKA_NUM_PARTITION": "3"})
        assert "num.partition" in caplog.text
        assert "KAFKA_NUM_PARTITION" in caplog.text

    def test_settings_without_effect_are_named_in_one_line(self, caplog: pytest.LogCaptureFixture, tmp_path: Path):
        file = tmp_path / "server.properties"
        file.write_text("num.io.threads=9\nnum.network.threads=3\nnum.partitions=9\n")
        with caplog.at_level(logging.WARNING):
            load({"KAFKA_LISTENER_NAME_A_MAX_CONNECTIONS": "5"}, file, controller_socket_timeout_ms="7")
        (record,) = caplog.records
        named = "controller.socket.timeout.ms,listener.name.a.max.connections,num.io.threads"
        assert record.getMessage() == f"settings without effect names={named} (docs/settings.md says why)"

    def test_settings_that_act_are_not_named(self, caplog: pytest.LogCaptureFixture):
        with caplog.at_level(logging.WARNING):
            load(
                num_partitions="9", log_retention_ms="7", odradek_commit_threads="3", socket_send_buffer_bytes="102400"
            )
        assert caplog.records == []


class TestIds:
    def test_the_old_name_of_the_id_will_do(self):
        config = load(broker_id="7")
        assert config.node_id == 7
        assert config.layers.static["node.id"] == "7"

    def test_both_names_must_agree(self):
        assert "`node.id` to the same value as `broker.id`" in refusal(broker_id="7", node_id="8")


class TestListeners:
    def test_port_0_is_left_to_choose(self):
        config = load(listeners="PLAINTEXT://127.0.0.1:0")
        assert config.listeners == config.advertised_listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 0),)

    def test_several_listeners_and_their_addresses(self):
        config = load(
            listeners="inside://10.0.0.1:9092,OUTSIDE://[::1]:9093",
            advertised_listeners="OUTSIDE://kafka.example.org:443",
            listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        )
        assert config.listeners == (Endpoint("INSIDE", "10.0.0.1", 9092), Endpoint("OUTSIDE", "::1", 9093))
        assert config.advertised_listeners == (Endpoint("OUTSIDE", "kafka.example.org", 443),)

    def test_both_families_may_share_a_port(self):
        config = load(
            listeners="A://127.0.0.1:9092,B://[::1]:9092", listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT"
        )
        assert [endpoint.port for endpoint in config.listeners] == [9092, 9092]

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({"listeners": "nonsense"}, "'nonsense' is not of the form NAME://HOST:PORT"),
            ({"listeners": "PLAINTEXT://h:70000"}, "port 70000"),
            ({"listeners": "PLAINTEXT://h:-1"}, "port -1"),
            ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "names a listener twice"),
            ({"listeners": "CONTROLLER://:9093"}, "There must be at least one broker advertised listener"),
            ({"listeners": "SSL://h:1"}, "SSL uses SSL; this version serves only PLAINTEXT"),
            ({"listeners": "OTHER://h:1"}, "OTHER has no entry in listener.security.protocol.map"),
            ({"listener_security_protocol_map": "PLAINTEXT"}, "'PLAINTEXT' is not of the form NAME:PROTOCOL"),
            ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "cannot use the nonroutable meta-address 0.0.0.0"),
            ({"advertised_listeners": "OTHER://h:1"}, "names OTHER, which listeners does not"),
            (
                {
                    "listeners": "A://h:1,B://h:1",
                    "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT",
                },
                "each listener must have a different port",
            ),
        ],
    )
    def test_what_cannot_be_listened_to(self, settings: dict[str, str], expected: str):
        message = refusal(**settings)
        assert expected in message
        assert message.endswith("(command line)")


class TestProtections:
    """A secured configuration must not result in an unprotected broker."""

    @pytest.mark.parametrize("name", sorted(PROTECTIONS))
    def test_a_setting_that_promises_protection_is_refused(self, name: str):
        message = refusal_of({name: UNLIKE_THE_DEFAULT.get(name, "x")})
        assert message.startswith(f"{name} (command line) promises ")
        assert "everybody who reaches a listener may do everything" in message
        assert "remove them" in message

    @pytest.mark.parametrize("name", sorted(PROTECTIONS))
    def test_a_value_that_promises_nothing_passes(self, name: str):
        definition = BROKER_CONFIGS.get(name)
        texts = ["true", "TRUE"] if name == "allow.everyone.if.no.acl.found" else [definition and definition.default]
        for text in texts:
            if text is not None:
                load_config(None, {name: text}, {})

    def test_places_are_named_and_all_at_once(self, tmp_path: Path):
        file = tmp_path / "server.properties"
        file.write_text(
            "num.partitions=1\nauthorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
        )
        message = refusal({"KAFKA_SUPER_USERS": "User:admin", "ODRADEK_SSL_CLIENT_AUTH": "required"}, file)
        assert f"authorizer.class.name ({file}:2) promises that clients may do only what they are granted" in message
        assert "super.users ($KAFKA_SUPER_USERS) promises" in message
        assert "ssl.client.auth ($ODRADEK_SSL_CLIENT_AUTH) promises TLS" in message

    def test_what_is_refused_is_not_called_ignored(self, caplog: pytest.LogCaptureFixture):
        refusal({"KAFKA_SUPER_USERS": "User:admin", "KAFKA_NO_SUCH": "1"})
        assert "no.such" in caplog.text
        assert "super.users" not in caplog.text

    def test_a_listeners_own_settings_count_and_passwords_are_not_shown(self):
        name = "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"
        message = refusal_of({name: "password=s3cret"})
        assert message.startswith(f"{name} (command line) promises that clients authenticate themselves")
        assert "s3cret" not in message

    @pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
    def test_a_listener_of_another_protocol_is_refused_whatever_its_name(self, protocol: str):
        message = refusal(listeners="OUT://h:1", listener_security_protocol_map=f"OUT:{protocol}")
        assert f"OUT uses {protocol}" in message

    def test_what_only_tunes_a_protection_passes(self):
        load(sasl_login_retry_backoff_ms="7", early_start_listeners="PLAINTEXT")


UNLIKE_THE_DEFAULT = {
    "allow.everyone.if.no.acl.found": "false",
    "connections.max.reauth.ms": "3600000",
    "security.inter.broker.protocol": "SASL_SSL",
    "ssl.client.auth": "required",
}


class TestRules:
    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({"num_partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
            ({"num_partitions": "x"}, "Not a number of type INT"),
            ({"delete_topic_enable": "maybe"}, "Expected value to be either true or false"),
            ({"log_retention_ms": "0"}, "log.retention.ms must be unlimited (-1) or, equal or greater than 1"),
            ({"log_retention_hours": "-2"}, "log.retention.hours must be unlimited"),
            ({"group_min_session_timeout_ms": "2000000"}, "must not be greater than group.max.session.timeout.ms"),
            (
                {"replica_fetch_wait_max_ms": "20", "replica_lag_time_max_ms": "10"},
                "must not be greater than replica.lag.time.max.ms (10)",
            ),
            (
                {"replica_fetch_wait_max_ms": "20", "replica_socket_timeout_ms": "10"},
                "must not be greater than replica.socket.timeout.ms (10)",
            ),
            ({"max_connections_per_ip": "0"}, "only if max.connections.per.ip.overrides property is set"),
            ({"max_connections_per_ip_overrides": "host"}, "'host' is not of the form HOST:COUNT"),
            ({"log_dirs": "/a,/b"}, "names 2 directories"),
            ({"broker_heartbeat_interval_ms": "0"}, "broker.heartbeat.interval.ms must be equal or greater than 1"),
            ({"broker_heartbeat_interval_ms": "-1"}, "broker.heartbeat.interval.ms must be equal or greater than 1"),
            ({"controller_quorum_fetch_timeout_ms": "0"}, "fetch.timeout.ms must be equal or greater than 1"),
            ({"controller_quorum_request_timeout_ms": "0"}, "request.timeout.ms must be equal or greater than 1"),
            (
                {"group_consumer_heartbeat_interval_ms": "15001"},
                "heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
            ),
            (
                {"group_consumer_heartbeat_interval_ms": "4999"},
                "heartbeat.interval.ms must be greater than or equal to group.consumer.min.heartbeat.interval.ms",
            ),
            (
                {"group_consumer_session_timeout_ms": "100"},
                "session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
            ),
            (
                {"group_consumer_session_timeout_ms": "60001"},
                "session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
            ),
            ({"replica_selector_class": "foo.Bar"}, "replica.selector.class: foo.Bar is not available, only org."),
            ({"controller_quorum_voters": "1@h:65536"}, "port out of range:65536"),
            ({"controller_quorum_bootstrap_servers": "h:1,h:65536"}, "port out of range:65536"),
            ({"default_replication_factor": "0"}, "default.replication.factor must be equal or greater than 1"),
            ({"log_cleaner_threads": "1001"}, "log.cleaner.threads: Value must be no more than 1000"),
            ({"odradek_commit_threads": "0"}, "odradek.commit.threads: Value must be at least 1"),
        ],
    )
    def test_contradictions_are_refused_with_their_place(self, settings: dict[str, str], expected: str):
        message = refusal(**settings)
        assert expected in message
        assert message.endswith("(command line)")

    @pytest.mark.parametrize("selector", ["RackAwareReplicaSelector", "LeaderSelector"])
    def test_kafkas_selectors_are_known(self, selector: str):
        name = f"org.apache.kafka.common.replica.{selector}"
        assert load_config(None, {"replica.selector.class": name}, {}).replica_selector_class == name

    def test_limits_per_address(self):
        config = load(max_connections_per_ip="0", max_connections_per_ip_overrides="127.0.0.1:5, ::1:6")
        assert config.max_connections_per_ip_overrides == {"127.0.0.1": 5, "::1": 6}

    def test_a_file_is_named_with_its_line(self, tmp_path: Path):
        file = tmp_path / "server.properties"
        file.write_text("# first\nnum.partitions=0\n")
        assert refusal(file=file).endswith(f"({file}:2)")
        file.write_text("\n\nlisteners=nonsense\n")
        assert refusal(file=file).endswith(f"({file}:3)")

    def test_a_variable_is_named(self):
        assert refusal({"KAFKA_NUM_PARTITIONS": "0"}).endswith("($KAFKA_NUM_PARTITIONS)")

    @pytest.mark.parametrize(
        ("name", "content", "expected"),
        [
            ("broker.toml", b"= 1", "is not valid TOML"),
            ("broker.toml", b"num.partitions = 1979-05-27", "num.partitions is a date"),
            ("server.properties", b"\xff\xfe", "cannot read the configuration file"),
        ],
    )
    def test_files_that_cannot_be_read(self, tmp_path: Path, name: str, content: bytes, expected: str):
        file = tmp_path / name
        file.write_bytes(content)
        assert expected in refusal(file=file)
        assert "cannot read the configuration file" in refusal(file=tmp_path / "missing.properties")


def test_settings_changed_at_run_time_take_effect_and_others_stay():
    config = load(num_partitions="3")
    changed = config.with_dynamic({"max.connections": "7"}, {"max.connections.per.ip": "8"})
    assert (changed.max_connections, changed.max_connections_per_ip) == (7, 8)
    assert changed.values["num.partitions"] == 3
    assert config.max_connections == 2**31 - 1
