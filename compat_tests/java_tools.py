"""Kafka's own command-line tools, run from the same jars as the real broker, against any bootstrap address."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compat_tests.processes import Guard
from compat_tests.real_kafka import jars_folder, java_command

TOOLS = {
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
# Started often and for a short time: quick compiler only, one collector thread, shared class data if available.
_JVM = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable"]
_ARCHIVE = "tools.jsa"
"""The class data archive that the first tool writes: later ones start in half the time. Java validates it."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's output and exit code."""

    stdout: str
    stderr: str
    code: int

    @property
    def lines(self) -> list[str]:
        """Standard output without blank lines."""
        return [line for line in self.stdout.splitlines() if line.strip()]


def tool_command(tool: str, *arguments: str, archive_into: Path | None = None) -> list[str]:
    """The command line of a tool; ``tool`` is its name in Kafka's ``bin/`` without ``.sh``."""
    libs = jars_folder() / "kafka"
    if not libs.is_dir():
        raise FileNotFoundError("no Kafka jars: run scripts/fetch_jars.sh kafka")
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    archive = f"-XX:SharedArchiveFile={jars_folder() / _ARCHIVE}"
    if archive_into is not None:
        archive = f"-XX:ArchiveClassesAtExit={archive_into}"
    return [java_command(), *_JVM, archive, logging, "-cp", f"{libs}/*", TOOLS[tool], *arguments]


def run_tool(
    tool: str, bootstrap: str, *arguments: str, stdin: str | None = None, timeout_s: float = 60.0
) -> ToolResult:
    """Runs a tool with ``--bootstrap-server`` to its end. Raises subprocess.TimeoutExpired."""
    return run_tool_as(tool, "--bootstrap-server", bootstrap, *arguments, stdin=stdin, timeout_s=timeout_s)


def run_tool_as(tool: str, *arguments: str, stdin: str | None = None, timeout_s: float = 60.0) -> ToolResult:
    """Runs a tool with exactly these arguments to its end. Raises subprocess.TimeoutExpired."""
    with _new_archive() as archive:
        result = subprocess.run(
            tool_command(tool, *arguments, archive_into=archive),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    return ToolResult(result.stdout, result.stderr, result.returncode)


@contextmanager
def _new_archive() -> Iterator[Path | None]:
    """The path where a tool may write the archive, None if it exists already."""
    kept = jars_folder() / _ARCHIVE
    if kept.exists():
        yield None
        return
    with tempfile.TemporaryDirectory(dir=jars_folder()) as folder:
        made = Path(folder) / _ARCHIVE
        yield made
        if made.exists():
            made.rename(kept)


@contextmanager
def running_tool(tool: str, bootstrap: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A tool in the background with its standard output as a pipe; killed at the end of the block."""
    process = subprocess.Popen(
        tool_command(tool, "--bootstrap-server", bootstrap, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    guard = Guard(f"kill -9 -{process.pid}")
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
        guard.release()


@contextmanager
def properties_file(**settings: str) -> Iterator[str]:
    """A temporary properties file; ``_`` in names stands for ``.``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "client.properties"
        path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items()))
        yield str(path)
