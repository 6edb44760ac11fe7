"""Every example of every `--help` runs as printed, and every command that a message mentions exists."""

import contextlib
import gc
import os
import re
import shlex
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import odradek
from compat_tests.spark_session import start_spark
from odradek.gateway.cli.main import cli
from odradek.testing import broker as running_broker

ROOT = Path(__file__).parents[3]
SOURCES = [path for folder in ("gateway", "storage_backends", "coordinator") for path in (ROOT / folder).rglob("*.py")]

TOPICS = {
    "hello": 3, "world": 1, "greetings": 1, "users": 1, "logs": 1, "jobs": 1, "a": 1, "b": 1, "payments": 4, "orders": 1
}  # fmt: skip
SIGNS = ("|", "<", ">")
ON_SPARK = {("pipeline", name) for name in ("archive", "compact", "restore", "transform", "load", "export")}
WITHOUT_END = ("serve", "--follow", "--continuous")
"""Examples with one of these words run until they are stopped, so they are only parsed."""
ALONE = ("odradek demo",)
"""Examples that their own tests run, since they take long: tests/pipeline/test_demo.py."""
REFUSED = {
    "odradek transactions abort payments:3 --start-offset 1200": "no transaction is open in payments-3",
    "odradek cluster drain 3": "there is no broker 3 that serves",
    "odradek cluster remove 9": "BROKER_ID_NOT_REGISTERED",
    "odradek recover --adopt orders --yes": "'orders' names no topics that were set aside",
    "odradek transactions describe payments-1 --json": "TRANSACTIONAL_ID_NOT_FOUND",
}
"""Examples that need a state of a faulty broker: they are run, and must be refused with this message."""


def pages(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    context = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from pages(child, (*path, name))


PAGES = list(pages(cli))


def examples(path: tuple[str, ...]) -> list[str]:
    text = CliRunner().invoke(cli, [*path, "--help"], prog_name="odradek", terminal_width=200).output
    return [line.strip() for line in text.splitlines() if re.match(r"  +(echo .* \| )?odradek ", line)]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker for the examples only, since they change settings of all brokers."""
    with odradek.broker(config={"num.partitions": "1"}) as broker:
        yield broker.bootstrap


@pytest.fixture
def example_folder(odradek, tmp_path, monkeypatch):
    """A directory with the files that examples read, and a broker with the topics and the group that they use."""
    for partitions in sorted(set(TOPICS.values())):
        names = [name for name, number in TOPICS.items() if number == partitions]
        odradek("topics", "create", *names, "-p", str(partitions), "--if-not-exists")
    topics = ("--topic", "hello", "--topic", "world")
    odradek("groups", "reset-offsets", "readers", *topics, "--to-earliest", "--execute")
    (tmp_path / "users.txt").write_text("ann:1\nbob:\n")
    (tmp_path / "access.log").write_text("GET /\n")
    (tmp_path / "offsets.csv").write_text("hello,0,1\n")
    (tmp_path / "server.properties").write_text("num.partitions=2\n")
    (tmp_path / "odradek-data").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
    monkeypatch.chdir(tmp_path)


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name, and the remaining words."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        child = command.get_command(click.Context(command), words[0])
        assert child is not None, f"{command.name} has no command {words[0]}"
        command, words = child, words[1:]
    return command, words


def stages(example: str) -> list[list[str]]:
    """The words of each command of a pipeline."""
    lexer = shlex.shlex(example, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    words = [word if word in SIGNS else shlex.quote(word) for word in lexer]
    return [shlex.split(stage) for stage in " ".join(words).split(" | ")]


def run(odradek, example: str) -> None:
    """Runs a pipeline as a shell does; the last command may be one that a healthy broker refuses."""
    piped = ""
    for program, *words in stages(example):
        if program == "echo":
            piped = " ".join(words) + "\n"
            continue
        if "<" in words:
            piped = Path(words[words.index("<") + 1]).read_text()
        arguments = [
            word for index, word in enumerate(words) if not {"<", ">"} & set(words[max(index - 1, 0) : index + 1])
        ]
        done = odradek(*arguments, stdin=piped, code=1 if example in REFUSED else 0)
        assert REFUSED.get(example, "") in done.stderr
        piped = done.stdout


@pytest.mark.parametrize("path", PAGES, ids=" ".join)
def test_every_page_has_an_example_of_its_own(path):
    found = examples(path)
    assert any(f"odradek {' '.join(path)}".strip() in each for each in found), found


@pytest.fixture
def _collect_sockets_of_spark() -> Iterator[None]:
    """PySpark leaves sockets to the garbage collector: collects them here instead of in another test."""
    yield
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        gc.collect()


@pytest.mark.usefixtures("_collect_sockets_of_spark")
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("path", [path for path in PAGES if path], ids=" ".join)
def test_examples_run_as_they_stand(odradek, example_folder, path, monkeypatch):
    if path in ON_SPARK:
        if os.environ.get("ODRADEK_NO_JAVA") == "1":
            pytest.skip("no Java here (ODRADEK_NO_JAVA=1)")
        monkeypatch.setenv("ODRADEK_JARS", str(ROOT / ".cache" / "jars"))
        start_spark()  # the session that all tests of this process share
    if path == ("sql",):
        with running_broker(Path("odradek-data")) as broker:
            broker.create_topic("flights")
    if path in {("topics",), ("topics", "create")}:  # examples of these commands create it
        odradek("topics", "delete", "hello")
    for example in examples(path):
        if example in ALONE or any(word in example.split() for word in WITHOUT_END):
            command, words = resolve(shlex.split(example)[1:])
            command.make_context("odradek", words)
        else:
            run(odradek, example)


def named_commands() -> list[tuple[str, str]]:
    """(file, words) of every command in backquotes in our sources, as messages mention them."""
    found = [(path, re.findall(r"`odradek ([a-z][^`{}]*)", path.read_text())) for path in SOURCES]
    return [(str(path.relative_to(ROOT)), words) for path, many in found for words in many]


@pytest.mark.parametrize(("file", "words"), named_commands())
def test_commands_that_messages_name_exist(file, words):
    command, rest = resolve(words.partition(" > ")[0].replace("|", " ").split())
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in rest if word.startswith("-")} <= known


def test_options_that_messages_name_exist():
    """Every option in a message belongs to some command."""
    known = {option for path in PAGES for parameter in resolve(list(path))[0].params for option in parameter.opts}
    texts = "\n".join(path.read_text() for path in (ROOT / "gateway" / "cli").rglob("*.py"))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", texts)) - known - {"--help", "--version", "--verbose"} == set()


def test_what_a_broker_prints_when_it_is_ready_runs(odradek, bootstrap):
    from odradek.gateway.cli.serve import ready_line

    class Config:
        storage_url = "memory://"
        node = type("Node", (), {"is_broker": True})

    class Running:
        pass

    Running.bootstrap = bootstrap
    run(odradek, ready_line(Config, Running).partition("try: ")[2])
