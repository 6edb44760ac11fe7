"""A reader pastes each block of README.md in order, into an empty folder with an empty home directory, and succeeds.

`pip install odradek` installs a wheel that is built from this checkout; all else comes from the registry, through uv's
cache. It can be run alone: `.venv/bin/pytest tests/examples/test_readme_as_read.py`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.processes import free_port
from examples.flights.processes import missing_for_spark, spark_jars
from tests.examples.terminal import Terminal
from tests.postgres import USER, Postgres, programs, skip_without_postgres

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LIMIT_S = 240
"""For each line: the installation of Spark and its first start take long on a busy machine."""
PORT = 9092

ELSEWHERE = {
    "make demo": "test_flights_demo.py",
    "make pipeline-demo": "test_pipeline_demo.py",
    "make sql-demo": "test_sql_demo.py",
    "make cluster-demo": "test_cluster_demo.py",
    "make test": "every test",
}
"""Lines that need a clone and long: these tests run them."""

PRINTED = {
    "odradek demo": "agree: nothing lost, nothing twice",
    "odradek consume greetings --from earliest": "hello\n",
    """odradek sql 'SELECT partition, "offset", as_text(value) FROM greetings'""": "hello",
    "pytest test_hello.py": "1 passed",
    "odradek pipeline archive flights --to ./flights --value json --schema inferred": "flights",
    "spark-sql -e 'SELECT parsed.carrier, avg(parsed.delay) FROM parquet.`./flights` GROUP BY 1'": "UA\t11.0",
    "odradek consume orders --from earliest": "ink\n",
}
"""What these lines must print, besides ending with 0 as all do."""


class Block(NamedTuple):
    """A block of README: its language, its text, the section it is in, and the paragraph above it."""

    language: str
    text: str
    section: str
    above: str


def blocks() -> Iterator[Block]:
    for section in re.split(r"^## ", README, flags=re.MULTILINE)[1:]:
        end = 0
        for found in re.finditer(r"^```(\w+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            yield Block(found[1], found[2], section.splitlines()[0], section[end : found.start()].strip())
            end = found.end()


def left_out(section: str) -> str | None:
    """Why a section cannot be run here, according to what the machine is said not to have; else None."""
    text = "".join(block.text for block in blocks() if block.section == section)
    if "spark" in text and os.environ.get("ODRADEK_NO_JAVA") == "1":
        return "no Java here (ODRADEK_NO_JAVA=1)"
    if "psql" in text and os.environ.get("ODRADEK_NO_POSTGRES") == "1":
        return "no PostgreSQL here (ODRADEK_NO_POSTGRES=1)"
    if set(text.splitlines()) <= ELSEWHERE.keys():
        return "run by tests of their own"
    return None


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    """A folder with the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run([uv(), "build", "--quiet", "--wheel", "--out-dir", folder], cwd=ROOT, check=True, timeout=LIMIT_S)
    return folder


def uv() -> str:
    return shutil.which("uv") or str(ROOT / ".venv-uv" / "bin" / "uv")


def pip_of(wheels: Path) -> str:
    """The definition of `pip` for the reader's shell: it finds Odradek's wheel, and takes the rest from uv's cache."""
    [wheel] = wheels.glob("odradek-*.whl")
    (wheels / "constraints.txt").write_text(f"odradek=={wheel.name.split('-')[1]}\n")
    options = ["--quiet", "--find-links", str(wheels), "--constraint", str(wheels / "constraints.txt")]
    return f'pip() {{ test "$1" = install && {shlex.join([uv(), "pip", "install", *options])} "${{@:2}}"; }}'


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """The environment of a new user of this machine: no packages but those of the system, and an empty home."""
    (home := tmp_path / "home").mkdir()
    (programs_folder := tmp_path / "bin").mkdir()
    (programs_folder / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    cache = subprocess.run([uv(), "cache", "dir"], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    kept = (
        "LANG",
        "TZ",
        "JAVA_HOME",
        "SSL_",
        "REQUESTS_",
        "CURL_",
        "UV_",
        "PIP_",
        "HTTP",
        "NO_PROXY",
        "http",
        "no_proxy",
    )
    given = {name: text for name, text in os.environ.items() if name.startswith(kept)}
    folders = [str(programs_folder), "/usr/local/bin", "/usr/bin", "/bin", str(programs() or "/bin")]
    mine = {"HOME": str(home), "PATH": os.pathsep.join(folders), "UV_CACHE_DIR": cache.stdout.strip()}
    if spark_jars().is_dir():
        mine["ODRADEK_JARS"] = str(spark_jars().parent)  # else they are fetched, which is not under test
    return given | mine | port_settings()


def port_settings() -> dict[str, str]:
    """Nothing if Kafka's port is free, as on a reader's machine; else the settings of another port."""
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            other = f"127.0.0.1:{free_port()}"
            return {"ODRADEK_LISTEN": other, "ODRADEK_BOOTSTRAP": other}
    return {}


@pytest.fixture
def database(environment) -> Iterator[None]:
    """PostgreSQL as a reader has it: createdb, psql and `postgresql+psycopg:///` reach it without further words."""
    if os.environ.get("ODRADEK_NO_POSTGRES") == "1":
        yield
        return
    server = Postgres(skip_without_postgres())
    server.start()
    environment |= {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": USER}
    yield
    server.remove()


class Reader:
    """Pastes blocks into terminals: a server keeps its terminal busy, "another terminal" is a new one."""

    def __init__(self, folder: Path, environment: dict[str, str], pip: str, stack: ExitStack) -> None:
        self._folder, self._environment, self._pip, self._stack = folder, environment, pip, stack
        self._first = self._current = self._new()
        self._other: Terminal | None = None
        self._serves = False

    def paste(self, block: Block) -> None:
        if block.language == "python":
            [name] = re.findall(r"`(\w+\.py)`", block.above)
            (self._folder / name).write_text(block.text)
        elif block.language == "sh":
            self._choose_terminal(block.above)
            for line in block.text.splitlines():
                self._type(line)

    def _type(self, line: str) -> None:
        if line.startswith("odradek serve"):
            self._current.start(line, " ready in ", LIMIT_S)
            self._serves = True
        else:
            printed = self._current.type(line, LIMIT_S)
            assert PRINTED.get(line, "") in printed, f"$ {line}\n{printed}"

    def _choose_terminal(self, above: str) -> None:
        if "Stop the broker" in above:
            self._first.interrupt(LIMIT_S)
            self._serves = False
            self._current = self._first
        if "n another terminal" in above:
            self._current = self._other = self._new()
        elif "n the other terminal" in above:
            assert self._other is not None
            self._current = self._other
        assert not (self._serves and self._current is self._first), "this terminal is busy: README must name another"

    def _new(self) -> Terminal:
        terminal = Terminal(self._folder, self._environment, self._pip)
        self._stack.callback(terminal.close)
        return terminal


@pytest.mark.spark
@pytest.mark.timeout(1_200)
@pytest.mark.usefixtures("database")
def test_each_block_pasted_in_order_succeeds(environment, wheels, tmp_path):
    if os.environ.get("ODRADEK_NO_JAVA") != "1":
        assert missing_for_spark() is None
    (folder := tmp_path / "empty").mkdir()
    with ExitStack() as stack:
        reader = Reader(folder, environment, pip_of(wheels), stack)
        for block in blocks():
            if left_out(block.section) is None:
                reader.paste(block)


def test_every_line_that_must_print_something_is_in_readme():
    lines = {line for block in blocks() for line in block.text.splitlines()}
    assert lines >= PRINTED.keys() | ELSEWHERE.keys()


def test_only_blocks_of_known_languages_are_in_readme():
    assert {block.language for block in blocks()} == {"sh", "python", "text"}
    assert not any(line.startswith(("$", "#")) for block in blocks() for line in block.text.splitlines())
