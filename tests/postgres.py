"""A real PostgreSQL for tests: one server for the whole run, and a separate database for each test that needs one."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from compat_tests.needs import needs
from compat_tests.processes import Daemon, free_port, remove_tree_guard, wait_for

USER = "odradek"
ACCOUNT = "postgres"
"""The account that runs the server if the tests run as root, which PostgreSQL refuses."""


def programs() -> Path | None:
    """The folder of the newest installed PostgreSQL's programs: Debian's, or from the PATH."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if installed:
        return installed[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


class Postgres:
    """A server with its own directory and port, which stay when it is stopped, killed and started again.

    With `durable` it syncs commits, as in production, and has PostgreSQL's default memory settings.
    """

    def __init__(self, bin_folder: Path, *, durable: bool = False) -> None:
        self._bin = bin_folder
        self._durable = durable
        self._as_other = os.geteuid() == 0
        self.folder = Path(tempfile.mkdtemp(prefix="odradek-postgres-"))
        self.port = free_port()
        self._daemon: Daemon | None = None
        self._guard = remove_tree_guard(self.folder)
        self._names = count(1)
        if self._as_other:
            account = pwd.getpwnam(ACCOUNT)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._run(
            "initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"
        )

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres") -> str:
        """SQLAlchemy's URL of a database."""
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """Creates a database; returns its URL."""
        name = f"test_{next(self._names)}"
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, name)
        return self.url(name)

    def execute(self, statement: str) -> None:
        """Runs a statement outside a transaction."""
        self._run("psql", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres", "-c", statement)

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            # After a kill the page cache still has all writes.
            "fsync": "on" if self._durable else "off",
            "max_connections": 50,
            "shared_buffers": "128MB" if self._durable else "32MB",
            "track_commit_timestamp": "on",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [*self._as_account(), str(self._bin / "postgres"), "-D", str(self.data), *options]
        self._daemon = Daemon(command, log=self.folder / "log")
        wait_for(self._answers, f"PostgreSQL on port {self.port}: {self._daemon.tail()}")

    def stop(self) -> None:
        """A fast shutdown: open transactions are rolled back, connections end."""
        assert self._daemon is not None
        self._daemon.process.send_signal(signal.SIGINT)
        self._daemon.process.wait(timeout=60)
        self._daemon.kill()
        self._daemon = None

    def kill(self) -> None:
        """`kill -9` of the server and all its processes, as by a power cut."""
        assert self._daemon is not None
        children = (
            Path(f"/proc/{self._daemon.process.pid}/task/{self._daemon.process.pid}/children").read_text().split()
        )
        self._daemon.kill()
        for child in map(int, children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        # A server does not start before the last of them has ended: their shared memory is still in use.
        wait_for(lambda: not any(_runs(int(child)) for child in children), "the end of PostgreSQL's processes")
        self._daemon = None

    def remove(self) -> None:
        """Stops it and deletes its directory."""
        if self._daemon is not None:
            self.stop()
        self._guard.release()

    def _answers(self) -> bool:
        assert self._daemon is not None
        assert self._daemon.process.poll() is None, self._daemon.tail()
        ready = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_account(), str(self._bin / program), *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=110, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _as_account(self) -> list[str]:
        return ["setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups"] if self._as_other else []


def _runs(pid: int) -> bool:
    """True if the process still has memory; a zombie has none."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


@needs("postgres")
def skip_without_postgres() -> Path:
    """PostgreSQL's programs. Skips if ODRADEK_NO_POSTGRES=1 states that they are missing; fails if they are."""
    if os.environ.get("ODRADEK_NO_POSTGRES") == "1":
        pytest.skip("no PostgreSQL here (ODRADEK_NO_POSTGRES=1)")
    found = programs()
    assert found is not None, "PostgreSQL is missing: run scripts/ensure_postgres.sh, or say ODRADEK_NO_POSTGRES=1"
    return found


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """The server that tests share. A test that kills it starts it again."""
    server = Postgres(skip_without_postgres())
    server.start()
    yield server
    server.remove()


@pytest.fixture
def postgres(postgres_server: Postgres) -> str:
    """The URL of an empty database."""
    return postgres_server.create_database()
