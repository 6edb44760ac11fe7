"""The processes of the demo: the broker, the members of the group and Spark. They write their output to files."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 20
SPARK_TIMEOUT_S = 180


class DemoError(Exception):
    """The demo cannot continue; the message has the reason and the log file."""


class Child:
    """One process, with its stderr in a file named after it."""

    def __init__(self, name: str, logs: Path, *module: str) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *module], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )

    def require_alive(self) -> None:
        """Raise `DemoError` with the end of its log if it has ended by itself."""
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise DemoError(f"{self.name} ended with {self.process.returncode}:\n{tail}")

    def kill(self) -> None:
        """Kill it (SIGKILL), like a crash: connections break, nothing is flushed."""
        self.process.send_signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        """Send SIGTERM, and kill it if it does not end in time. Does nothing if it has ended."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._reap()

    def _reap(self) -> None:
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Broker(Child):
    """`odradek serve` on a free port with its data in `directory`, or in the store that `storage` names."""

    def __init__(self, directory: Path, logs: Path, storage: str | None = None) -> None:
        where = ("--data", str(directory)) if storage is None else ("--storage", storage)
        serve = ("serve", "--listen", "127.0.0.1:0", *where)
        super().__init__("broker", logs, "odradek", *serve, "--set", "group.initial.rebalance.delay.ms=500")
        assert self.process.stdout is not None
        self.ready_line = self.process.stdout.readline().decode().strip()
        match = re.search(r"ready .*?at (\S+:\d+)", self.ready_line)
        if match is None:
            self.process.wait(START_TIMEOUT_S)
            self.require_alive()
            raise DemoError(f"the broker said {self.ready_line!r}")
        self.bootstrap = match[1]


def missing_for_spark() -> str | None:
    """The reason why Spark cannot run here, or None."""
    if find_java() is None:
        return "no Java 17 or 21 (see `make setup-spark`)"
    if not list(spark_jars().glob("spark-sql-kafka*.jar")):
        return f"no Kafka connector in {spark_jars()} (scripts/fetch_jars.sh spark)"
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed (uv sync --extra spark)"
    return None


def spark_jars() -> Path:
    """The folder into which scripts/fetch_jars.sh downloads Spark's connector."""
    return Path(os.environ.get("ODRADEK_JARS", ROOT / ".cache" / "jars")) / "spark"


def find_java() -> str | None:
    """The java that Spark would use, if there is one."""
    home = os.environ.get("JAVA_HOME")
    candidate = str(Path(home) / "bin" / "java") if home else "java"
    return shutil.which(candidate)


def run_spark(bootstrap: str, topic: str, logs: Path) -> str:
    """Run the Spark job and return the last line it printed; raises `DemoError`."""
    command = ["-m", "examples.flights.spark_job", "--bootstrap", bootstrap, "--topic", topic]
    log_path = logs / "spark.log"
    with log_path.open("wb") as log:
        done = subprocess.run(
            [sys.executable, *command, "--jars", str(spark_jars())],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=log,
            timeout=SPARK_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        raise DemoError(f"Spark ended with {done.returncode}:\n{log_path.read_text(errors='replace')[-2000:]}")
    return done.stdout.decode().strip().splitlines()[-1]
