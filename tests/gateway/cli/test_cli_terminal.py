"""What clients choose reaches a terminal with its control characters escaped, and programs exactly."""

import json
import logging
import os
import pty
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.gateway.cli.clients.interface import Access
from odradek.gateway.cli.errors import CliError
from odradek.gateway.cli.formats import formatter
from odradek.gateway.cli.json_logs import JsonFormatter
from odradek.gateway.cli.serve import TextFormatter
from odradek.gateway.cli.visible import visible, visible_json, visible_lines

EVIL = "evil\x1b]0;owned\x07\x1b[2J\u009b31m\u202egroup\nforged  classic  Stable  consumer\r\x7f"
SHOWN = r"evil\x1b]0;owned\x07\x1b[2J\x9b31m\u202egroup\nforged  classic  Stable  consumer\r\x7f"


def has_controls(text: str) -> bool:
    return any(visible(letter) != letter for letter in text if letter not in "\n\t")


@pytest.fixture
def evil_group(bootstrap, topic):
    """A group with a member, all of whose ids contain control characters."""
    settings = {"bootstrap.servers": bootstrap, "group.id": EVIL, "client.id": EVIL, "group.instance.id": EVIL}
    consumer = Consumer({**settings, "log_level": 0})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    yield EVIL
    consumer.close()


def test_ids_of_groups_are_escaped_for_people_and_exact_for_programs(odradek, evil_group):
    listed = odradek("groups", "list").stdout
    assert [line.partition("  ")[0] for line in listed.splitlines() if "forged" in line] == [SHOWN.partition("  ")[0]]
    described = odradek("groups", "describe", evil_group).stdout
    assert described.startswith(f"{SHOWN}: ")
    refused = odradek("groups", "delete", evil_group, code=1).stderr
    assert SHOWN.split("\\x9b", maxsplit=1)[0] in refused
    for text in (listed, described, refused):
        assert not has_controls(text)
        assert not any(line.startswith("forged") for line in text.splitlines())
    assert evil_group in [group["group_id"] for group in json.loads(odradek("groups", "list", "--json").stdout)]
    [described] = json.loads(odradek("groups", "describe", evil_group, "--json").stdout)
    assert described["group"] == evil_group
    assert [member["client"] for member in described["members"]] == [EVIL]


def test_ids_of_transactions_are_escaped_for_people_and_exact_for_programs(bootstrap, odradek):
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": EVIL, "log_level": 0})
    producer.init_transactions()
    listed = odradek("transactions", "list").stdout
    assert SHOWN in listed
    assert not has_controls(listed)
    found = json.loads(odradek("transactions", "list", "--json").stdout)
    assert EVIL in [each["transactional_id"] for each in found]


def on_terminal(*arguments: str) -> str:
    """What a command prints on a terminal."""
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "odradek", *arguments]
    process = subprocess.Popen(command, stdout=its, stderr=subprocess.DEVNULL, env={**os.environ, "TERM": "dumb"})
    os.close(its)
    parts: list[bytes] = []
    try:
        while part := os.read(ours, 65_536):
            parts.append(part)
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("layout", ["value", "key-value", "full", "json", "{headers}"])
def test_records_on_a_terminal(bootstrap, topic, layout):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, EVIL.encode(), EVIL.encode(), headers={"h\x1b": EVIL.encode()})
    producer.flush()
    text = on_terminal("consume", topic, "--bootstrap", bootstrap, "--format", layout)
    assert "owned" in text
    assert not has_controls(text)
    lines = text.splitlines()
    assert len(lines) == (2 if layout == "value" else 1)  # a value may have lines; it has no rows that one could forge
    if layout == "json":
        assert json.loads(text)["value"] == EVIL


def test_cells_of_sql_are_escaped_on_a_terminal(tmp_path):
    data = str(tmp_path / "data")
    statement = "SELECT 'a' || char(27) || '[2J' || char(10) || 'forged' AS cell"
    from odradek.testing import broker

    with broker(data):
        pass
    for form in ([], ["--csv"], ["--json"]):
        text = on_terminal("sql", "--data", data, statement, *form)
        assert "forged" in text
        assert not has_controls(text)
        assert not any(line.startswith("forged") for line in text.splitlines())


def test_records_in_a_pipe_are_exact():
    access = Access(str, int, int, int, bytes, bytes, list)._replace(value=lambda _record: EVIL.encode())
    assert formatter("value", access)([None]) == [EVIL.encode() + b"\n"]


def record_of(message: str, *values: object, **extra: object) -> logging.LogRecord:
    record = logging.LogRecord("odradek", logging.WARNING, "", 0, message, values, None)
    vars(record).update(extra)
    return record


def test_a_client_cannot_forge_a_line_of_the_log():
    assert TextFormatter("%(message)s").format(record_of("joined group=%s", EVIL)) == f"joined group={SHOWN}"
    assert TextFormatter("%(message)s").format(record_of("in:\n%s", "  a\x1b", several_lines=True)) == "in:\n  a\\x1b"
    line = JsonFormatter().format(record_of("joined group=%s", EVIL))
    assert not has_controls(line)
    assert json.loads(line)["group"] == EVIL


def test_a_client_cannot_forge_a_line_of_an_error():
    assert CliError(EVIL, "another").format_message() == f"{SHOWN}\nodradek: another"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain ASCII", "plain ASCII"),
        ("naïve 日本語 🙂", "naïve 日本語 🙂"),
        ("a\tb\n", r"a\tb\n"),
        ("\x00\x9f\u2028\u2066\ud800", r"\x00\x9f\u2028\u2066\ud800"),
    ],
)
def test_what_is_escaped(text, expected):
    assert visible(text) == expected
    assert visible_lines("a\tb\n" + text.replace("\n", "").replace("\t", "")).startswith("a\tb\n")
    document = json.dumps(text, ensure_ascii=False)
    assert json.loads(visible_json(document)) == text
    assert not has_controls(visible_json(document))
