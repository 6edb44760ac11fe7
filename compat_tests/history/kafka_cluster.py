"""A real Kafka in place of our brokers, under the same faults: our clients may wait as long as those of Kafka."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path
from typing import Final

from compat_tests.brokers import java_properties
from compat_tests.clusters import CLUSTER_ID, HEAP
from compat_tests.processes import Guard, wait_for_broker
from compat_tests.real_kafka import formatted, jars_folder, java_command
from odradek.gateway.supervision.layout import NodePlan
from odradek.gateway.testing.cluster import TestCluster, TestNode

SUBJECT: Final = "ODRADEK_COMPAT_SUBJECT"


def is_kafka() -> bool:
    """True if this run tests a real Kafka (ODRADEK_COMPAT_SUBJECT=jvm)."""
    return os.environ.get(SUBJECT) == "jvm"


class KafkaNode(TestNode):
    """One node: a JVM."""

    def __init__(self, node: NodePlan, file: Path) -> None:
        super().__init__(node, file)
        self._config = file.with_suffix(".kafka.properties")
        own = {name: text for name, text in node.settings.items() if not name.startswith("odradek.")}
        self._config.write_text(java_properties({**own, "log.dirs": str(node.directory)}))
        self._guard: Guard | None = None

    def start(self) -> None:
        """Start the JVM; formats its directory first if there is none."""
        assert not self.is_running, f"node {self.plan.node_id} runs already"
        if not self.plan.directory.exists():
            formatted(self._command("kafka.tools.StorageTool"), CLUSTER_ID, self._config)
        self._ready = threading.Event()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._config)), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._guard = Guard(f"kill -9 {self._process.pid} 2>/dev/null")
        threading.Thread(target=self._await_answer, args=(self._process, self._ready), daemon=True).start()

    def _await_answer(self, process: subprocess.Popen[bytes], ready: threading.Event) -> None:
        with contextlib.suppress(RuntimeError, TimeoutError):
            wait_for_broker(f"127.0.0.1:{self.plan.port}", alive=lambda: process.poll() is None)
            ready.set()

    def join(self) -> None:
        """Wait until the JVM has ended. Raises subprocess.TimeoutExpired."""
        super().join()
        if self._guard is not None:
            self._guard.release()
            self._guard = None

    @staticmethod
    def _command(*arguments: str) -> list[str]:
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return [java_command(), *HEAP.split(), quiet, "-cp", f"{jars_folder() / 'kafka'}/*", *arguments]


class KafkaCluster(TestCluster):
    """Kafka's brokers with the ids 1, 2, …"""

    def new_node(self, node: NodePlan, file: Path) -> TestNode:
        """A JVM in place of our process."""
        return KafkaNode(node, file)

    def stop(self) -> None:
        """Kill all nodes: a controlled shutdown of all of them would wait for a quorum that no longer exists."""
        self.kill_at_once(*self.ids)
        super().stop()
