"""franz-go's own tests (`pkg/kgo`): which of them need a broker, how to run them, and how to parse their output."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from compat_tests.processes import Daemon
from compat_tests.suites.results import Result, Skip, Status
from compat_tests.suites.toolchain import test_binary
from odradek.wire.api_keys import ApiKey

PACKAGE = "pkg/kgo"
TITLE = "franz-go 1.22.2, `pkg/kgo`"
ETL = ("TestGroupETL", "TestTxnEtl")
"""Chains of three groups (without and with transactions) with changing members; every record once, in order."""
OTHERS = (
    "Test848RegexBrokerResolves",
    "TestAddRemovePartitions",
    "TestClient_Produce",
    "TestClient_ProduceLargeMessages",
    "TestConsumeMaxDecompressBatchBytes",
    "TestConsumeRegex",
    "TestConsumeRegexShareSkipsInternal",
    "TestConsumeTopicRetrieval",
    "TestConsumeTopicRetrieval_Many",
    "TestDirectPartitionPurge",
    "TestGroupSimple",
    "TestHookPollStart",
    "TestIssue1034",
    "TestIssue325",
    "TestIssue337",
    "TestIssue434",
    "TestIssue523",
    "TestIssue648",
    "TestIssue769",
    "TestIssue810",
    "TestIssue831",
    "TestIssue865",
    "TestIssueFetchLargerThanBrokerMaxReadBytes",
    "TestIssueProduceBrokerTooOldFailsRecords",
    "TestIssueProduceSyncManualPartitionNegativeDoesNotPanic",
    "TestPauseIssue489",
    "TestPauseIssueOct2023",
    "TestPing",
    "TestPooling",
    "TestShareGroup",
    "TestShareGroupAckOnClose",
    "TestShareGroupETL",
    "TestShareGroupOffsetsAdmin",
    "TestUnknownGroupOffsetFetchPinned",
)
"""The other tests of the package that send requests to a broker."""

SKIPS = (
    Skip(
        r"Test(GroupETL|TxnEtl)/.*848.*|TestGroupSimple/848|Test848RegexBrokerResolves",
        "needs KIP-848 groups (ConsumerGroupHeartbeat 1)",
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
    ),
    Skip(
        r"TestShareGroup.*|TestConsumeRegexShareSkipsInternal",
        "needs share groups (ShareFetch 2)",
        ApiKey.SHARE_FETCH,
        2,
    ),
)

ELSEWHERE = {
    "TestSCRAMAuth, TestSCRAMAuthBadCredentials": "need a second listener with SASL (KGO_TEST_SCRAM_SEEDS)",
    "the other tests of pkg/kgo": "never ask a broker: they test the client's insides",
    "all tests of pkg/kadm 1.19": "never ask a broker: they test builders and error types",
}
"""Tests that are not run here, and why."""


def run(
    bootstrap: str, tests: Iterable[str], *, records: int, timeout_s: float, chaos: bool = False
) -> dict[str, Result]:
    """Runs tests against a broker. Raises NoGoError, and TimeoutExpired if the binary exceeds its own time-out.

    `chaos` is the suite's own mode in which every connection is closed after about a second.
    """
    binary = test_binary(PACKAGE)
    environment = {
        "KGO_SEEDS": bootstrap,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": str(records),
        "KGO_TEST_UNSAFE": "1",  # Kafka itself may begin a transaction before the end of the last one is answered
        "KGO_LOG_LEVEL": "none",
        **({"KGO_TEST_CHAOS": "1"} if chaos else {}),
    }
    pattern = "^(" + "|".join(tests) + ")$"
    command = [str(binary), "-test.v=test2json", f"-test.timeout={timeout_s:.0f}s", "-test.run", pattern]
    with tempfile.TemporaryDirectory(prefix="odradek-franz-go-") as folder:
        log = Path(folder) / "output"
        daemon = Daemon(command, log=log, env=environment)
        try:
            daemon.process.wait(timeout=timeout_s + 30)
        except subprocess.TimeoutExpired:
            daemon.kill()
            raise
        daemon.terminate()
        return parse(log.read_text(errors="replace"))


_LINE = re.compile(
    r"^\x16?=== (?:RUN|CONT|NAME) +(?P<now>\S*)"
    r"|\x16--- (?P<status>PASS|FAIL|SKIP): (?P<test>\S+) \((?P<seconds>[\d.]+)s\)"
    r"|^ *\w+_test\.go:\d+: (?P<said>.*)"
    r"|^(?P<panic>panic: .*)"
)
_STATUS = {"PASS": Status.PASSED, "FAIL": Status.FAILED, "SKIP": Status.SKIPPED}
_NOISE = re.compile(r"deleting (topic|group) |FAILED TESTING|.* completed in ")


def parse(output: str) -> dict[str, Result]:
    """The verdicts in the output of ``-test.v=test2json``; a test that began and never ended has failed."""
    found: dict[str, Result] = {}
    said: dict[str, list[str]] = {}
    now = panic = ""
    for line in output.splitlines():
        match = _LINE.search(line)
        if match is None:
            continue
        if match["test"]:
            found[match["test"]] = Result(_STATUS[match["status"]], float(match["seconds"]))
        elif match["panic"]:
            panic = panic or match["panic"]
        elif match["said"] is None:
            now = match["now"]
            said.setdefault(now, [])
        elif not _NOISE.match(match["said"]):
            said.setdefault(now, []).append(match["said"])
    return _with_words(found, said, panic)


def _with_words(found: Mapping[str, Result], said: Mapping[str, list[str]], panic: str) -> dict[str, Result]:
    results: dict[str, Result] = {}
    for test in said.keys() - {""} | found.keys():
        ended = found.get(test, Result(Status.FAILED))
        words = "; ".join(said.get(test, []))
        if test not in found:
            words = f"did not end: {panic or 'the run was cut off'} {words}"
        results[test] = Result(ended.status, ended.seconds, words if ended.status is not Status.PASSED else "")
    return results
