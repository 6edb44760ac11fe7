"""The suite's own machinery: skips are reported, differences are found, and everything started is cleaned up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from compat_tests import (
    comparison,
    matrix,
    test_aiokafka,
    test_java_client,
    test_java_tools,
    test_kafka_python,
    test_kcat,
    test_librdkafka,
    test_protocol_edges,
    test_spark,
)
from compat_tests.catalogue import CASES, CLIENTS, NOT_APPLICABLE
from compat_tests.comparison import Case, CaseBook, Comparison, Outcome, Resources, Side, differences, plain
from compat_tests.differences import KNOWN, Difference
from compat_tests.frames import Batch, RawConnection, batch_headers, produce
from compat_tests.processes import ROOT, Guard, free_port
from compat_tests.real_kafka import environment_name, kafka_settings

BOOKS: list[CaseBook] = [
    test_kafka_python.BOOK,
    test_librdkafka.BOOK,
    test_aiokafka.BOOK,
    test_kcat.BOOK,
    test_java_tools.BOOK,
    test_java_client.BOOK,
    test_spark.BOOK,
    test_protocol_edges.BOOK,
]


def test_every_client_has_a_book() -> None:
    assert {book.client for book in BOOKS} == set(CLIENTS)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_pair_has_a_script_or_a_reason(client: str) -> None:
    covered = {case.row for book in BOOKS if book.client == client for case in book.cases}
    excused = {row for known, row in NOT_APPLICABLE if known == client}
    assert covered | excused == set(CASES)
    assert not covered & excused, "a pair cannot both run and be left out"


def test_known_differences_name_cases_that_exist() -> None:
    names = {(book.client, case.name) for book in BOOKS for case in book.cases}
    for known in KNOWN:
        assert any(known.is_about(client, name) for client, name in names), known
        assert known.reason


@pytest.mark.parametrize(
    ("expected", "seen", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["a[1].b"]),
        ({"a": 1}, {}, ["a"]),
        ({}, {"b": None}, ["b"]),
        ([1, 2], [1], [""]),
        ({"a": True}, {"a": 1}, ["a"]),
        ({"a": 1}, {"a": "1"}, ["a"]),
        ({"a": None}, {"a": 0}, ["a"]),
    ],
)
def test_differences_are_found_where_they_are(expected: Any, seen: Any, paths: list[str]) -> None:
    assert [path for path, _ in differences(expected, seen)] == paths


def test_observations_become_plain() -> None:
    assert plain({1: b"\xff", "set": {3, 1}, "tuple": (None, 2.5)}) == {
        "1": "\xff",
        "set": [1, 3],
        "tuple": [None, 2.5],
    }
    with pytest.raises(AssertionError, match="cannot be compared"):
        plain(object())


class _FakeBroker:
    """A side that answers with what it was given."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name, self.provider, self.bootstrap, self.answer = name, name, "127.0.0.1:1", answer
        self.replicas = 1

    def crash(self) -> None: ...

    def restart(self) -> None: ...

    def stop(self) -> None: ...


def _compare(kafka: Any, odradek: Any, *, needs: str = "") -> Comparison:
    def run(side: Side) -> Any:
        answer = side.broker.answer  # type: ignore[attr-defined]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def no_spark() -> Any:
        raise AssertionError("no case here needs Spark")

    sides = (_FakeBroker("kafka", kafka) if kafka is not None else None, _FakeBroker("odradek", odradek))
    both = Comparison(*sides, Resources(no_spark))
    case = Case("kcat", "headers", "headers", run, needs)
    try:
        both.check(case)
    except (AssertionError, ValueError):
        assert both.outcomes[0].status == "failed"
        raise
    return both


def test_the_same_is_the_same() -> None:
    assert _compare({"a": [1]}, {"a": (1,)}).outcomes[0].status == "same"


def test_an_unexplained_difference_fails_with_its_path() -> None:
    with pytest.raises(AssertionError, match=r"a\[0\]: 1 \| 2"):
        _compare({"a": [1]}, {"a": [2]})


def test_an_error_on_one_side_names_the_side() -> None:
    with pytest.raises(ValueError, match="boom") as caught:
        _compare({}, ValueError("boom"))
    assert any("on odradek" in note for note in caught.value.__notes__)


def test_an_explained_difference_is_reported_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "KNOWN", (Difference("*", "headers", "a[[]0]", "because"),))
    outcome = _compare({"a": [1]}, {"a": [2]}).outcomes[0]
    assert (outcome.status, outcome.detail) == ("different", "because")


def test_an_explanation_that_is_no_longer_needed_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "KNOWN", (Difference("kcat", "headers", "a*", "because"),))
    with pytest.raises(AssertionError, match="no longer seen"):
        _compare({"a": 1}, {"a": 1})


def test_without_a_real_kafka_nothing_is_called_the_same() -> None:
    assert _compare(None, {"a": 1}).outcomes[0].status == "not compared"


def test_known_missing_programs_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_NO_KCAT", "1")
    with pytest.raises(pytest.skip.Exception, match="no kcat"):
        _compare({}, {}, needs="kcat")


def _outcome(row: str, name: str, status: str, detail: str = "") -> Outcome:
    return Outcome(Case("kcat", row, name, lambda _: None, ""), status, detail)


def test_the_matrix_shows_the_worst_of_a_pair_and_every_reason() -> None:
    outcomes = [_outcome("headers", "headers", "same"), _outcome("headers", "more", "different", "a reason")]
    assert matrix.cell(outcomes, "kcat", "headers") == ("different", ["more: a reason"])
    assert matrix.cell(outcomes, "kcat", "configs")[0] == "n/a"
    assert matrix.cell(outcomes, "spark", "headers") == ("not selected", [])
    page = matrix.markdown(outcomes, "a Kafka", "an Odradek")
    assert "different: kcat / more: a reason" in page
    assert all(f"| {row} |" in page for row in CASES)
    assert any("a reason" in line for line in matrix.terminal_lines(outcomes))


def test_settings_become_the_official_images_variables() -> None:
    assert environment_name("log.retention.ms") == "KAFKA_LOG_RETENTION_MS"
    assert environment_name("a_b-c.d") == "KAFKA_A__B___C_D"


def test_the_image_turns_its_variables_back_into_settings() -> None:
    """docker/kafka/run.sh reads what ``environment_name`` writes; its own switches are not settings."""
    script = (ROOT / "docker" / "kafka" / "run.sh").read_text()
    functions = script[script.index("from_environment()") : script.index('given="')]
    settings = {**kafka_settings(1234, 9093, host="0.0.0.0"), "odd_name-x.y": "a=b c"}
    variables = {environment_name(key): value for key, value in settings.items()}
    shown = subprocess.run(
        ["sh", "-c", f"{functions}\nfrom_environment"],
        env={"PATH": os.environ["PATH"], "KAFKA_HEAP_OPTS": "-Xmx1g", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict(line.split("=", 1) for line in shown.stdout.splitlines()) == settings


def test_raw_batches_are_read_back() -> None:
    batch = Batch([b"a" * 300, b"b" * 300], producer_id=7, producer_epoch=1, sequence=5, codec=1).encode()
    first, second = batch_headers(batch * 2 + batch[:40])
    assert first == second
    assert (first["count"], first["producer_id"], first["sequence"], first["codec"]) == (2, 7, 5, 1)


def test_ports_are_below_the_ephemeral_range_and_not_given_twice() -> None:
    first = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 1))
        second = free_port()
    assert 20_000 <= first < 32_768
    assert second not in {first, first + 1}


def test_a_guard_cleans_up_when_released(tmp_path: Path) -> None:
    mark = tmp_path / "cleaned"
    guard = Guard(f"touch {mark}")
    assert not mark.exists()
    guard.release()
    assert mark.exists()
    guard.release()


def test_a_guard_cleans_up_after_kill_9(tmp_path: Path) -> None:
    mark = tmp_path / "cleaned"
    script = f"""
import os, signal, sys
from compat_tests.processes import Guard
guard = Guard("echo done > {mark}")
os.kill(os.getpid(), signal.SIGKILL)
"""
    os.mkfifo(mark)  # opening it for reading waits until the guard's shell writes: no polling
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(mark.read_text()), daemon=True)
    reader.start()
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)
    reader.join(timeout=30)
    assert ended.returncode == -signal.SIGKILL
    assert got == ["done\n"]


@pytest.mark.parametrize(
    "script", sorted((ROOT / "scripts").glob("*.sh")) + sorted(ROOT.glob("docker/*/*.sh")), ids=str
)
def test_scripts_parse(script: Path) -> None:
    shell = "sh" if script.read_text().startswith("#!/bin/sh") else "bash"
    assert subprocess.run([shell, "-n", str(script)], check=False).returncode == 0


def test_scripts_on_a_machine_with_nothing_say_so(tmp_path: Path) -> None:
    """No Java, no Maven, no kcat, no apt, no permissions: clear messages, and exit codes that scripts can check."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "id", "sed", "head", "tail", "cat", "mkdir", "sha256sum", "cut", "env"):
        found = subprocess.run(["/bin/sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=True)
        (tools / name).symlink_to(found.stdout.strip())
    environment = {"PATH": str(tools), "ODRADEK_JARS": str(tmp_path / "jars")}

    def run(script: str) -> subprocess.CompletedProcess[str]:
        command = [ROOT / "scripts" / script]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    jars, kcat = run("fetch_jars.sh"), run("ensure_kcat.sh")
    assert (jars.returncode, "NO MAVEN" in jars.stderr) == (1, True)
    assert (kcat.returncode, kcat.stdout.strip(), "NO KCAT" in kcat.stderr) == (0, "no kcat", True)


@pytest.mark.timeout(60, func_only=True)
def test_the_leaders_of_a_created_topic_take_the_first_record(comparison: Comparison) -> None:
    """Otherwise a client would retry refused records, and their order would depend on when Kafka was ready."""
    brokers = [broker for broker in (comparison.kafka, comparison.odradek) if broker is not None]
    sides = [Side(broker, "suite-itself", comparison.resources) for broker in brokers]
    for side in sides:
        topic, record = side.topic(partitions=50), Batch([b"first"]).encode()
        with RawConnection(side.bootstrap) as connection:
            errors = {produce(connection, topic, record, partition=at)["error"] for at in reversed(range(50))}
        assert errors == {"NONE"}, side.broker.name
