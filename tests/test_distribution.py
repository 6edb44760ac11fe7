"""The result of `pip install`: one package, `odradek`, which works beside packages named like our folders."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("coordinator", "gateway", "partitions", "pipeline", "storage_backends", "wire")
IN_PACKAGE = (
    "__init__.py",
    "__main__.py",
    "facilities.py",
    "interpreter.py",
    "py.typed",
    "pytest_plugin.py",
    "testing.py",
)
TIMEOUT_S = 100

OWN_TESTS = """
import gateway, wire, pipeline


def test_the_projects_own_packages_are_found():
    assert (gateway.MINE, wire.MINE, pipeline.MINE) == (1, 1, 1)
"""
FIXTURE_TESTS = """
import gateway, socket


def test_a_broker_answers(kafka_broker, kafka_topic):
    host, _, port = kafka_broker.bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=10):
        pass
    assert gateway.MINE and kafka_topic.startswith("test_a_broker_answers-")
"""


def run(*command: object, cwd: Path = ROOT, code: int = 0, **variables: str) -> str:
    """Runs a command that must end with `code`; returns its output."""
    ours = ("PYTHON", "PYTEST", "ODRADEK")
    foreign = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=foreign | variables,
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def uv() -> str:
    return shutil.which("uv") or str(ROOT / ".venv-uv" / "bin" / "uv")


@pytest.fixture(scope="module")
def built(uv, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(uv, "build", "--quiet", "--sdist", "--out-dir", folder)
    run(uv, "build", "--quiet", "--wheel", "--out-dir", folder)
    return folder


@pytest.fixture(scope="module", params=["odradek-*.whl", "odradek-*.tar.gz"], ids=["wheel", "sdist"])
def installed(request, built, uv, tmp_path_factory) -> Path:
    """The `bin` folder of a new environment with only the distribution, its default dependencies and pytest."""
    environment = tmp_path_factory.mktemp("environment")
    (distribution,) = built.glob(request.param)
    run(uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, environment)
    run(uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python", distribution, "pytest")
    return environment / "bin"


@pytest.fixture
def project(tmp_path) -> Path:
    """A project with packages named like our folders, which fails if they are taken for ours."""
    for name in ("gateway", "wire", "pipeline"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = 1\n")
    return tmp_path


def sources() -> set[str]:
    listed = run("git", "ls-files", *FOLDERS).split()
    return {f"odradek/{name}" for name in listed} | {f"odradek/{name}" for name in IN_PACKAGE}


def test_the_wheel_has_every_source_once_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert sorted(name for name in names if ".dist-info/" not in name) == sorted(sources())


def test_the_sdist_has_every_source_once(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    expected = {name.removeprefix("odradek/") for name in sources()} - set(IN_PACKAGE)
    assert sorted(name for name in names if name.startswith(FOLDERS)) == sorted(expected)


def test_nothing_but_odradek_is_installed(installed):
    script = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    assert run(installed / "python", "-c", script, *FOLDERS, cwd=installed).strip() == "[]"


def test_the_command_works_beside_packages_of_the_same_names(installed, project):
    assert run(installed / "odradek", "--version", cwd=project, PYTHONPATH=".").startswith("odradek ")
    assert "odradek serve" in run(installed / "python", "-m", "odradek", "--help", cwd=project)


def test_serve_answers_beside_packages_of_the_same_names(installed, project):
    command = [installed / "odradek", "serve", "--listen", "127.0.0.1:0", "--data", "data"]
    path = os.environ | {"PYTHONPATH": "."}
    with subprocess.Popen(
        command, cwd=project, env=path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as broker:
        assert broker.stdout is not None
        said = broker.stdout.readline()
        broker.terminate()
        rest = broker.stdout.read()
    assert " ready in " in said, said + rest
    assert broker.returncode == 0, rest


def test_an_unrelated_run_of_pytest_is_left_alone(installed, project):
    (project / "test_own.py").write_text(OWN_TESTS)
    assert "1 passed" in run(installed / "python", "-m", "pytest", "-q", cwd=project)


def test_the_fixtures_work_beside_packages_of_the_same_names(installed, project):
    (project / "test_fixtures.py").write_text(FIXTURE_TESTS)
    assert "1 passed" in run(installed / "python", "-m", "pytest", "-q", cwd=project)


def test_a_client_command_without_its_extra_names_the_extra(installed, project):
    said = run(installed / "odradek", "topics", "list", "--bootstrap", "127.0.0.1:1", cwd=project, code=1)
    assert said.strip().endswith("pip install 'odradek[cli]'")
    assert len(said.splitlines()) == 1
