"""A real Apache Kafka for the suite: KRaft, one node.

Providers, in the order they are tried (``ODRADEK_KAFKA_PROVIDER`` = ``testcontainers`` or ``jvm`` forces one):

1. testcontainers with ``KAFKA_IMAGE`` when that is set;
2. testcontainers with the official image, when it is here or can be pulled;
3. testcontainers with the image that ``docker/kafka/build.sh`` makes out of jars, pulling nothing;
4. the same jars on the local JVM, where no container engine can run.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compat_tests import jvm_starts
from compat_tests.brokers import SETTINGS, Broker, java_properties
from compat_tests.needs import needs
from compat_tests.processes import ROOT, Daemon, Guard, call, free_port, remove_tree_guard, wait_for_broker

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

OFFICIAL_IMAGE = "apache/kafka:4.3.1"
# Quick to start and small; the suite compares answers, not speed.
HEAP = "-Xms128m -Xmx768m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
_NODE_ID = 1
# Far longer than the default of 9 s. A broker that is suspended for so long, on a busy machine, loses the leadership of
# its partitions for a moment, and its coordinators load all groups again in the middle of a script. After a crash it
# may register again only when its old session is over, so `_forget_crashed` ends that.
_LONG_SESSIONS = {"broker.session.timeout.ms": "120000", "broker.heartbeat.interval.ms": "250"}
_CONTROLLER_WITHIN_S = 120.0
_BROKER_ID_NOT_REGISTERED = 102


class UnavailableError(Exception):
    """This provider cannot be used here; the message has the reason."""


def jars_folder() -> Path:
    """The folder that ``scripts/fetch_jars.sh`` writes to."""
    return Path(os.environ.get("ODRADEK_JARS", ROOT / ".cache" / "jars"))


@needs("java")
def java_command() -> str:
    """The java to run: ``JAVA_HOME``'s or the one on the PATH. Raises UnavailableError."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise UnavailableError("no Java 17 or 21: run scripts/ensure_java.sh")
    return java


def formatted(storage_tool: list[str], cluster_id: str, config: Path) -> None:
    """Formats the directories of a configuration for a cluster. Raises UnavailableError."""
    result = _run([*storage_tool, "format", "-t", cluster_id, "-c", str(config)], timeout_s=60)
    if result.returncode != 0:
        raise UnavailableError(f"kafka-storage format: {_last_line(result)}")


def kafka_settings(
    port: int, controller_port: int, *, host: str, settings: Mapping[str, str] = SETTINGS
) -> dict[str, str]:
    """The broker's configuration: `settings` and those that a single KRaft node needs."""
    return {
        "node.id": str(_NODE_ID),
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@localhost:{controller_port}",
        **settings,
    }


@needs("containers", "java")
def start_real_kafka() -> Broker:
    """Starts Kafka by the first provider that works. Raises UnavailableError with every provider's reason."""
    reasons: list[str] = []
    for provide in _providers():
        try:
            return provide()
        except UnavailableError as error:
            reasons.append(str(error))
    raise UnavailableError("no real Kafka here: " + "; ".join(reasons))


def _providers() -> list[Callable[[], Broker]]:
    forced = os.environ.get("ODRADEK_KAFKA_PROVIDER", "")
    image = os.environ.get("KAFKA_IMAGE")
    containers: list[Callable[[], Broker]] = [_official, _built]
    if image:
        containers = [lambda: ContainerKafka(image)]
    if forced == "testcontainers" or (image and forced != "jvm"):
        return containers
    return [JvmKafka] if forced == "jvm" else [*containers, JvmKafka]


def _official() -> Broker:
    _ensure_engine()
    if not _has_image(OFFICIAL_IMAGE) and not _pull(OFFICIAL_IMAGE):
        raise UnavailableError(f"{OFFICIAL_IMAGE} is not here and cannot be pulled")
    return ContainerKafka(OFFICIAL_IMAGE)


def _built() -> Broker:
    built = _run([str(ROOT / "docker" / "kafka" / "build.sh")], timeout_s=400)
    if built.returncode != 0:
        raise UnavailableError(f"docker/kafka/build.sh: {_last_line(built)}")
    return ContainerKafka(built.stdout.split()[-1])


def _ensure_engine() -> None:
    engine = _run([str(ROOT / "scripts" / "ensure_docker.sh")], timeout_s=200)
    if engine.returncode != 0:
        raise UnavailableError(_last_line(engine))


def _has_image(image: str) -> bool:
    return _run(["docker", "image", "inspect", image], timeout_s=20).returncode == 0


def _pull(image: str) -> bool:
    try:
        return _run(["docker", "pull", "-q", image], timeout_s=300).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def _run(command: list[str], *, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def _last_line(result: subprocess.CompletedProcess[str]) -> str:
    lines = (result.stderr or result.stdout).strip().splitlines()
    return lines[-1] if lines else f"exit {result.returncode}"


def _forget_crashed(controller: str) -> None:
    """Unregisters the killed broker, so that its successor may register at once.

    Must be called once, while Kafka starts again. Raises TimeoutError.
    """
    deadline = time.monotonic() + _CONTROLLER_WITHIN_S
    # not registered: an earlier request succeeded and its answer was lost; repeating it would unregister the successor
    while (error := _unregister(controller)) not in (0, _BROKER_ID_NOT_REGISTERED):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the controller at {controller} did not forget the crashed broker: {error}")
        threading.Event().wait(0.1)


def _unregister(controller: str) -> int | str:
    """UnregisterBroker 0: the error code of its answer, or the reason why there was none."""
    host, port = controller.rsplit(":", 1)
    request = struct.pack(">hhihBiB", 64, 0, 1, -1, 0, _NODE_ID, 0)
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            answer = call(connection, request)
    except OSError as error:
        return str(error)
    return struct.unpack_from(">h", answer, 4 + 1 + 4)[0]


class ContainerKafka:
    """Kafka in a container, by testcontainers.

    The reaper of testcontainers would need an image to be pulled, so it is off; a guard removes the container instead.
    """

    name = "kafka"
    replicas = 1

    def __init__(self, image: str) -> None:
        self.provider = f"testcontainers, image {image}"
        port, controller_port = free_port(), free_port()
        self.bootstrap, self._controller = f"127.0.0.1:{port}", f"127.0.0.1:{controller_port}"
        container_name = f"odradek-compat-{uuid.uuid4().hex[:12]}"  # noqa: TID251 - not product code
        self._guard = Guard(f"docker rm -f -v {container_name}")
        try:
            self._container = self._configured(image, port, controller_port, container_name)
            with jvm_starts.alone():
                self._container.start()
                self._await()
        except Exception as error:
            self._guard.release()
            raise UnavailableError(f"{self.provider} did not start: {error}") from error

    def _configured(self, image: str, port: int, controller_port: int, name: str) -> DockerContainer:
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import DockerContainer

        testcontainers_config.ryuk_disabled = True
        container = DockerContainer(image).with_name(name)
        for each in (port, controller_port):
            container = container.with_bind_ports(each, each)
        for key, value in {**kafka_settings(port, controller_port, host=""), **_LONG_SESSIONS}.items():
            container = container.with_env(environment_name(key), value)
        return container.with_env("CLUSTER_ID", _CLUSTER_ID).with_env("KAFKA_HEAP_OPTS", HEAP)

    def _wrapped(self) -> Any:
        return self._container.get_wrapped_container()

    def _await(self) -> None:
        def alive() -> bool:
            self._wrapped().reload()
            return self._wrapped().status in {"created", "running", "restarting"}

        try:
            wait_for_broker(self.bootstrap, alive=alive)
        except (RuntimeError, TimeoutError) as error:
            log = self._wrapped().logs(tail=8).decode(errors="replace")
            raise UnavailableError(f"{error}: {log}") from error

    def crash(self) -> None:
        self._wrapped().kill()
        self._wrapped().wait()

    def restart(self) -> None:
        self._wrapped().start()
        _forget_crashed(self._controller)
        self._await()

    def stop(self) -> None:
        self._container.stop()
        self._container.get_docker_client().client.close()
        self._guard.release()


def environment_name(key: str) -> str:
    """A broker setting as the official image's environment variable."""
    return "KAFKA_" + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()


class JvmKafka:
    """Kafka on the local JVM, from the same jars."""

    name = "kafka"
    replicas = 1

    def __init__(self) -> None:
        self._java = java_command()
        self._libs = jars_folder() / "kafka"
        if not (self._libs).is_dir():
            raise UnavailableError("no Kafka jars: run scripts/fetch_jars.sh kafka")
        self.provider = "local JVM (no container engine)"
        self._home = Path(tempfile.mkdtemp(prefix="odradek-kafka-"))
        self._remove = remove_tree_guard(self._home)
        port, controller_port = free_port(), free_port()
        self.bootstrap, self._controller = f"127.0.0.1:{port}", f"127.0.0.1:{controller_port}"
        settings = {**kafka_settings(port, controller_port, host="127.0.0.1"), **_LONG_SESSIONS}
        settings["log.dirs"] = str(self._home / "data")
        self._config = self._home / "server.properties"
        self._config.write_text(java_properties(settings))
        try:
            with jvm_starts.alone():
                self._format()
                self._daemon = self._start()
                self._await()
        except UnavailableError:
            self._remove.release()
            raise

    def _command(self, *arguments: str) -> list[str]:
        return [self._java, *HEAP.split(), "-cp", f"{self._libs}/*", *arguments]

    def _format(self) -> None:
        formatted(self._command("kafka.tools.StorageTool"), _CLUSTER_ID, self._config)

    def _start(self) -> Daemon:
        return Daemon(self._command("kafka.Kafka", str(self._config)), log=self._home / "kafka.log")

    def _await(self) -> None:
        daemon = self._daemon
        try:
            wait_for_broker(self.bootstrap, alive=lambda: daemon.process.poll() is None)
        except (RuntimeError, TimeoutError) as error:
            daemon.kill()
            raise UnavailableError(f"{error}: {daemon.tail(4)}") from error

    def crash(self) -> None:
        self._daemon.kill()

    def restart(self) -> None:
        self._daemon = self._start()
        _forget_crashed(self._controller)
        self._await()

    def stop(self) -> None:
        self._daemon.kill()
        self._remove.release()
