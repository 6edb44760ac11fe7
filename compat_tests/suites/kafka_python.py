"""kafka-python's own integration tests, from its source package: how to set their broker address and run them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from compat_tests.frames import create_topic
from compat_tests.processes import ROOT, Daemon
from compat_tests.suites.results import Result, Skip, Status
from odradek.wire.api_keys import ApiKey

TITLE = "kafka-python 3.0.12, `test/integration`"
MODULES = ("test_admin_integration", "test_consumer_integration", "test_producer_integration")
TEST_TIMEOUT_S = 60
BOUNDED = "not (heartbeat_thread or high_throughput)"
"""A pytest expression for `make test`: all tests except the two slowest."""


def _lacks(test: str, api: ApiKey, version: int = 0) -> Skip:
    reason = f"needs {api.name.title().replace('_', '')}" + (f" {version}" if version else "")
    return Skip(test, reason, api, version, may_fail=True)


SKIPS = (
    _lacks("test_elect_leaders", ApiKey.ELECT_LEADERS),
    _lacks("test_describe_log_dirs", ApiKey.DESCRIBE_LOG_DIRS),
    _lacks("test_alter_replica_log_dirs", ApiKey.ALTER_REPLICA_LOG_DIRS, 1),
    _lacks("test_describe_metadata_quorum", ApiKey.DESCRIBE_QUORUM),
    _lacks("test_alter_partition_reassignments", ApiKey.ALTER_PARTITION_REASSIGNMENTS),
    _lacks("test_list_partition_reassignments", ApiKey.LIST_PARTITION_REASSIGNMENTS),
    _lacks("test_list_config_resources", ApiKey.LIST_CONFIG_RESOURCES),
    _lacks("test_kafka_version_infer", ApiKey.DESCRIBE_LOG_DIRS, 5),
    Skip(
        "test_describe_configs_broker_resource_returns_configs",
        "asks for a static advertised.listeners: the Kafka of this suite is given one, Odradek is not",
        may_fail=True,
    ),
)
ELSEWHERE = {
    "test_sasl_integration, test_ssl_integration": "start brokers of their own with the listeners they need",
    "the tests outside of test/integration": "ask no broker, or a made-up one",
}
AIOKAFKA = {
    "all of aiokafka's tests": "the source package of aiokafka 0.14 on PyPI has none; `compat_tests/test_aiokafka.py` "
    "drives the library with our own scripts",
}

_SERVICE = '''"""Stands in for a module that the source package leaves out: a broker that runs already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        pass

    dump_logs = stop


class SpawnedService:
    """Never made: KAFKA_URI is set."""
'''


class NoTestsError(Exception):
    """The source package is not available."""


def source() -> Path:
    """The unpacked source package. Raises NoTestsError."""
    fetched = subprocess.run(
        [str(ROOT / "scripts" / "fetch_client_tests.sh")], capture_output=True, text=True, timeout=300, check=False
    )
    if fetched.returncode != 0:
        raise NoTestsError(fetched.stderr.strip()[-300:])
    folder = Path(os.environ.get("ODRADEK_CLIENT_TESTS", ROOT / ".cache" / "client-tests")) / "kafka_python-3.0.12"
    # Two files that its tests import are missing in the package.
    (folder / "test" / "__init__.py").touch()
    (folder / "test" / "service.py").write_text(_SERVICE)
    return folder


def run(bootstrap: str, *, only: str = "", timeout_s: float, tests: Sequence[str] = ()) -> dict[str, Result]:
    """Runs the tests against a broker; `only` is a pytest expression. Raises NoTestsError and TimeoutExpired."""
    folder = source()
    # The suite's own broker creates new topics with four partitions.
    for name in ("transactional_test_topic", "idempotent_test_topic"):
        create_topic(bootstrap, name, 4, {})
    with tempfile.TemporaryDirectory(prefix="odradek-kafka-python-") as scratch:
        report = Path(scratch) / "report.xml"
        daemon = Daemon(
            _command(folder, report, only or " or ".join(tests)),
            log=Path(scratch) / "output",
            env={
                "PYTEST_ADDOPTS": "",
                "KAFKA_URI": f"kafka://{bootstrap}",
                "KAFKA_VERSION": "4.3",
                "KAFKA_ROOT": scratch,  # it must exist; nothing is started from it
                "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
            },
        )
        try:
            daemon.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            daemon.kill()
            raise
        daemon.terminate()
        assert report.exists(), f"pytest wrote no report:\n{daemon.tail(20)}"
        return parse(report.read_text())


def _command(folder: Path, report: Path, expression: str) -> list[str]:
    """Its tests only, without our settings and plugins but the one that mends a race of the client."""
    modules = [str(folder / "test" / "integration" / f"{name}.py") for name in MODULES]
    off = [word for plugin in ("randomly", "odradek", "cacheprovider") for word in ("-p", f"no:{plugin}")]
    mended = ["-p", "compat_tests.suites.kafka_python_metadata"]
    settings = [
        "-c",
        os.devnull,
        f"--rootdir={folder}",
        f"--confcutdir={folder}",
        f"--timeout={TEST_TIMEOUT_S}",
        "--tb=native",
        "-q",
    ]
    choice = ["-k", expression] if expression else []
    return [sys.executable, "-m", "pytest", *modules, *off, *mended, *settings, *choice, f"--junit-xml={report}"]


def parse(report: str) -> dict[str, Result]:
    """The verdicts in a JUnit report."""
    found: dict[str, Result] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        ended = next((child for child in case if child.tag in {"failure", "error", "skipped"}), None)
        status = Status.PASSED if ended is None else Status.SKIPPED if ended.tag == "skipped" else Status.FAILED
        said = "" if ended is None else (ended.get("message") or "").partition("\n")[0]
        found[case.get("name", "")] = Result(status, float(case.get("time", 0)), said)
    return found
