"""Our own container image and its files: built, run and used as users and tools do.

Skipped with a message if no container engine can run.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.processes import ROOT, Guard, free_port, wait_for, wait_for_broker

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
DATA = "/var/lib/kafka/data"
pytestmark = pytest.mark.timeout(400)


def run(
    *command: str, check: bool = True, timeout_s: float = 120, **variables: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, check=False, env={**os.environ, **variables}
    )
    assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def image() -> str:
    """The image's name; built if the sources have changed."""
    engine = run(str(ROOT / "scripts" / "ensure_docker.sh"), check=False, timeout_s=200)
    if engine.returncode != 0:
        pytest.skip(f"NO CONTAINER ENGINE: {engine.stderr.strip().splitlines()[-1]}")
    return run(str(ROOT / "docker" / "odradek" / "build.sh"), timeout_s=380).stdout.split()[-1]


def random_name() -> str:
    return f"odradek-image-{uuid.uuid4().hex[:12]}"  # noqa: TID251 - not product code


class Container:
    """A container of our image whose port `inside` is the host's `port`; removed with its volumes at the end."""

    def __init__(self, image: str, *options: str, port: int, inside: int = 9092, **variables: str) -> None:
        self.name = random_name()
        self.port = port
        self._guard = Guard(f"docker rm -f -v {self.name}")
        given = [part for name, value in variables.items() for part in ("-e", f"{name}={value}")]
        run(
            "docker", "run", "-d", "--name", self.name, "-p", f"127.0.0.1:{self.port}:{inside}", *given, *options, image
        )

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.release()

    def inspect(self, template: str) -> str:
        return run("docker", "inspect", "-f", template, self.name).stdout.strip()

    def exec(self, *command: str) -> str:
        return run("docker", "exec", self.name, *command).stdout.strip()

    def log(self) -> str:
        done = run("docker", "logs", self.name)
        return done.stdout + done.stderr

    def await_broker(self) -> None:
        try:
            wait_for_broker(self.bootstrap, alive=lambda: self.inspect("{{.State.Running}}") == "true")
        except RuntimeError as error:
            raise AssertionError(self.log()) from error

    def stop(self) -> int:
        """Sends SIGTERM as `docker stop` does; returns the exit code."""
        run("docker", "stop", "--time", "60", self.name)
        return int(self.inspect("{{.State.ExitCode}}"))


def started(image: str, *options: str, **variables: str) -> Container:
    """A container that advertises the host's port, and answers."""
    port = free_port()
    advertised = f"PLAINTEXT://127.0.0.1:{port}"
    listeners = {"KAFKA_LISTENERS": "PLAINTEXT://:9092", "KAFKA_ADVERTISED_LISTENERS": advertised}
    container = Container(image, *options, port=port, **listeners, **variables)
    container.await_broker()
    return container


def written(bootstrap: str, topic: str, count: int) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        for number in range(count):
            producer.send(topic, b"%d" % number)
        producer.flush(60)
    finally:
        producer.close()


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    try:
        return [next(consumer).value for _ in range(count)]
    finally:
        consumer.close()


def test_a_round_trip_a_drain_and_a_restart(image):
    records = [b"%d" % number for number in range(100)]
    variables = {"KAFKA_LOG_RETENTION_HOURS": "5", "ODRADEK_METRICS_LISTEN": "127.0.0.1:9404", "CLUSTER_ID": CLUSTER_ID}
    with started(image, **variables) as broker:
        written(broker.bootstrap, "trip", 100)
        assert read(broker.bootstrap, "trip", 100) == records
        assert broker.exec("id", "-u") == "1000"
        assert broker.exec("stat", "-c", "%U", DATA) == "odradek"
        assert "odradek\0serve" in broker.exec("cat", "/proc/1/cmdline")  # no shell that would not forward signals
        assert settings(broker.bootstrap)["log.retention.hours"] == "5"
        assert cluster_id(broker.bootstrap) == CLUSTER_ID
        page = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9404/health/ready').read().decode())"
        assert broker.exec("python3", "-c", page) == "ok"
        assert broker.stop() == 0
        assert "draining" in broker.log()
        run("docker", "start", broker.name)
        broker.await_broker()
        assert read(broker.bootstrap, "trip", 100) == records


def test_any_user_of_the_root_group_on_a_read_only_file_system(image):
    """Run as on clusters that choose the user id."""
    with started(image, "--user", "4711:0", "--read-only", "--cap-drop", "ALL") as broker:
        written(broker.bootstrap, "trip", 10)
        assert broker.exec("stat", "-c", "%u", f"{DATA}/format") == "4711"


def settings(bootstrap: str) -> dict[str, str]:
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    resource = ConfigResource(ResourceType.BROKER, "1")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_configs([resource], request_timeout=30)
    return {name: entry.value for name, entry in described[resource].result().items()}


def cluster_id(bootstrap: str) -> str | None:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).cluster_id


def test_it_becomes_healthy_and_needs_no_configuration(image):
    with Container(image, port=free_port()) as broker:
        wait_for(lambda: broker.inspect("{{.State.Health.Status}}") == "healthy", "a healthy container")
        assert broker.exec("odradek-health") == "127.0.0.1:9092 answers"
        broker.exec("sh", "-c", "echo hello | odradek produce greetings")
        assert broker.exec("odradek", "consume", "greetings", "--from", "earliest") == "hello"
        broker.exec(
            "kafka-topics.sh", "--bootstrap-server", "localhost:9092", "--create", "--topic=jobs", "--partitions", "3"
        )
        listed = broker.exec("/opt/kafka/bin/kafka-topics.sh", "--bootstrap-server", "localhost:9092", "--list")
        assert listed.split() == ["greetings", "jobs"]
        assert broker.inspect("{{range $path, $_ := .Config.Volumes}}{{$path}}{{end}}") == DATA


def test_a_broker_that_does_not_answer_is_unhealthy(image):
    done = run("docker", "run", "--rm", image, "odradek-health", check=False)
    assert done.returncode == 1
    assert done.stdout == "nothing listens\n"


def test_what_kafkas_single_node_example_sets(image):
    """The variables of apache/kafka's own single-node compose file, unchanged but for the port of the host."""
    port = free_port()
    variables = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT_HOST://localhost:{port},PLAINTEXT://broker:19092",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@broker:29093",
        "KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://:9092,PLAINTEXT://:19092",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "CLUSTER_ID": CLUSTER_ID,
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
        "KAFKA_LOG_DIRS": "/tmp/kraft-combined-logs",
    }
    with Container(image, "--hostname", "broker", port=port, **variables) as broker:
        broker.await_broker()
        written(broker.bootstrap, "trip", 10)
        assert len(read(broker.bootstrap, "trip", 10)) == 10
        assert broker.exec("odradek", "topics", "list", "-b", "broker:19092") == "trip"
        assert "unknown setting" not in broker.log()


def test_a_mounted_file_is_read_and_variables_win(image, tmp_path: Path):
    port = free_port()
    lines = [f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}", "num.partitions=3", "log.retention.hours=9"]
    (tmp_path / "server.properties").write_text("\n".join(lines))
    tmp_path.chmod(0o755)
    mount = f"{tmp_path}:/mnt/shared/config:ro"
    with Container(image, "-v", mount, port=port, KAFKA_LOG_RETENTION_HOURS="7") as broker:
        broker.await_broker()
        found = settings(broker.bootstrap)
        assert (found["num.partitions"], found["log.retention.hours"]) == ("3", "7")


def test_listeners_are_those_advertised_when_none_are_given(image):
    port = free_port()
    with Container(image, port=port, inside=port, KAFKA_ADVERTISED_LISTENERS=f"PLAINTEXT://localhost:{port}") as broker:
        broker.await_broker()
        assert settings(broker.bootstrap)["listeners"] == f"PLAINTEXT://0.0.0.0:{port}"


def test_data_of_another_cluster_are_refused(image):
    volume = random_name()
    guard = Guard(f"docker volume rm -f {volume}")
    try:
        with started(image, "-v", f"{volume}:{DATA}", CLUSTER_ID=CLUSTER_ID) as broker:
            assert broker.stop() == 0
        done = run(
            "docker",
            "run",
            "--rm",
            "-v",
            f"{volume}:{DATA}",
            "-e",
            "CLUSTER_ID=MkU3OEVBNTcwNTJENDM2Qk",
            image,
            check=False,
        )
    finally:
        guard.release()
    assert done.returncode == 1
    assert f"This storage belongs to cluster {CLUSTER_ID}, not to MkU3OEVBNTcwNTJENDM2Qk." in done.stderr


@pytest.fixture
def as_confluents(image: str) -> Iterator[str]:
    """The image with a tag for `KafkaContainer.with_kraft`, which requires that of a Confluent Platform ≥ 7."""
    tag = "odradek/as-confluents:8.0.0"
    run("docker", "tag", image, tag)
    yield tag
    run("docker", "rmi", tag)


@pytest.mark.parametrize("kraft", [False, True])
def test_testcontainers_own_kafka_container(as_confluents, kraft):
    from testcontainers.community.kafka import KafkaContainer
    from testcontainers.core.config import testcontainers_config

    testcontainers_config.ryuk_disabled = True  # its reaper is an image that would have to be pulled
    container: Any = KafkaContainer(as_confluents)
    with container.with_kraft() if kraft else container as kafka:
        bootstrap = kafka.get_bootstrap_server()
        written(bootstrap, "trip", 10)
        assert len(read(bootstrap, "trip", 10)) == 10
        kafka.get_docker_client().client.close()


def compose_command() -> list[str]:
    """`docker compose` or `docker-compose`; skips if neither is available."""
    for command in (["docker", "compose"], ["docker-compose"]):
        try:
            if run(*command, "version", check=False).returncode == 0:
                return command
        except FileNotFoundError:
            continue
    pytest.skip("NO COMPOSE: install docker-compose-plugin, or Debian's docker-compose")


class Project:
    """The three nodes of the compose file, with separate names and ports; removed with their volumes at the end."""

    def __init__(self, image: str) -> None:
        self._name = random_name()
        self._command = [*compose_command(), "-p", self._name, "-f", str(ROOT / "docker" / "compose.yaml")]
        self.ports = [free_port() for _ in range(3)]
        self._variables = {f"ODRADEK_PORT_{number}": str(port) for number, port in enumerate(self.ports, 1)}
        self._variables["ODRADEK_IMAGE"] = image
        volumes = " ".join(f"{self._name}_odradek-{number}" for number in (1, 2, 3))
        self._guard = Guard(
            f"docker ps -aq --filter name={self._name} | xargs -r docker rm -f -v; "
            f"docker network rm {self._name}_default; docker volume rm {volumes}"
        )

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.release()

    def __call__(self, *arguments: str) -> str:
        """Runs `docker compose ARGUMENTS` of this project; returns its output."""
        return run(*self._command, *arguments, timeout_s=240, **self._variables).stdout

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports)

    def await_brokers(self, *ports: int) -> None:
        """Returns when each node serves and has all of these in its metadata."""
        for port in ports:
            wait_for_broker(f"localhost:{port}", brokers=len(ports))

    def await_health(self) -> None:
        """Returns when all three are healthy for Docker."""
        containers = self("ps", "-q").split()
        assert len(containers) == 3
        command = ("docker", "inspect", "-f", "{{.State.Health.Status}}", *containers)
        wait_for(lambda: run(*command).stdout.split() == ["healthy"] * 3, "healthy containers")


def test_the_compose_file_runs_three_nodes_of_which_one_may_be_killed(image):
    from confluent_kafka.admin import AdminClient, NewTopic

    with Project(image) as compose:
        compose("up", "-d", "--no-build")
        compose.await_brokers(*compose.ports)
        compose.await_health()
        admin = AdminClient({"bootstrap.servers": compose.bootstrap})
        admin.create_topics([NewTopic("trip", 3, 3)])["trip"].result()
        assert all(len(part.replicas) == 3 for part in admin.list_topics("trip").topics["trip"].partitions.values())
        written(compose.bootstrap, "trip", 60)
        compose("kill", "odradek-1")
        assert len(read(compose.bootstrap, "trip", 60)) == 60
        written(compose.bootstrap, "trip", 30)
        compose("up", "-d", "--no-build")
        compose.await_brokers(*compose.ports)
        assert len(read(f"localhost:{compose.ports[0]}", "trip", 90)) == 90  # the volume outlives the container
        compose("down", "-v")
