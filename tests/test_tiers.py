"""Each test is in one tier, by what it uses; a test that uses more than its marks say fails."""

import shlex
import subprocess
from pathlib import Path

import pytest

from compat_tests.needs import FACILITIES, needs
from tests.tiers import CORE_FOLDERS, REST_FOLDERS, ROOT, TIERS, marks, reached, tier

pytest_plugins = ["pytester"]
HERE = ROOT / "tests"
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import pytest
from compat_tests.needs import FACILITIES, needs
from tests import tiers
from tests.tier_watch import TierWatch

tiers.FOLDERS += (__import__("pathlib").Path(__file__).parent,)

def pytest_configure(config):
    for name in (*FACILITIES, *tiers.TIERS):
        config.addinivalue_line("markers", f"{{name}}: a mark")
    config.pluginmanager.register(TierWatch())

def pytest_itemcollected(item):
    tiers.mark([item], 120)

def pytest_report_teststatus(report):
    tier = [name for name in report.keywords if name in (*FACILITIES, *tiers.TIERS)]
    if report.when == "setup":
        print(f"<{{report.nodeid.partition('::')[2]}}: {{' '.join(sorted(tier))}}>")

@pytest.fixture(scope="session")
@needs("spark", "java")
def spark(): ...

@pytest.fixture(scope="session")
@needs("postgres")
def server(): ...

@pytest.fixture
def postgres(server): ...

@pytest.fixture
def session(spark): ...

@pytest.fixture(params=["sqlite", "postgres"])
def database(request): ...

@pytest.fixture
@needs("containers", "java", only=True)
def comparison():
    import subprocess
    subprocess.run
"""
TESTS = """
import os, socket, subprocess, sys
from multiprocessing import Process
import pytest
import odradek

def lists(*names): return subprocess.run([sys.executable, "-c", "0"], check=True)
class Broker:
    def start(self): return Process
class Derived(Broker): ...

def test_nothing(): ...
def test_helper(): lists("x") if False else None
def test_method(): return Derived if False else None
class TestMethods:
    def test_own(self): self.started() if False else None
    def test_other(self): ...
    def started(self): return Process
def test_inner():
    def inner(): return os.fork if False else None
def test_local_import():
    import subprocess
    subprocess.run if False else None
def test_cluster(): odradek.cluster if False else None
def test_session(session): ...
def test_database(database): ...
def test_comparison(comparison): ...
@pytest.mark.timeout(121)
def test_long(): ...
@pytest.mark.timeout(120)
def test_default(): ...
@pytest.mark.core
def test_stated(comparison): ...
"""
EXPECTED = {
    "test_nothing": "unit",
    "test_helper": "processes rest",
    "test_method": "processes rest",
    "TestMethods::test_own": "processes rest",
    "TestMethods::test_other": "unit",
    "test_inner": "processes rest",
    "test_local_import": "processes rest",
    "test_cluster": "processes rest",
    "test_session": "java rest spark",
    "test_database[sqlite]": "unit",
    "test_database[postgres]": "postgres rest",
    "test_comparison": "containers java rest",
    "test_long": "long rest",
    "test_default": "unit",
    "test_stated": "containers core java",
}


def run(pytester: pytest.Pytester, tests: str, *, alone: bool = False) -> pytest.RunResult:
    """Runs tests; with `alone` in a process, since what they start would count for the test here."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(tests)
    how = pytester.runpytest_subprocess if alone else pytester.runpytest_inprocess
    return how("-q", "-s", "-p", "no:randomly", "-p", "no:hypothesispytest")


def test_each_rule_marks_what_it_is_about_and_nothing_else(pytester):
    lines = run(pytester, TESTS).outlines
    shown = [
        line[line.index("<") + 1 :].rstrip(">.").split(": ") for line in lines if "<test_" in line or "<Test" in line
    ]
    assert dict(shown) == EXPECTED


def test_every_facility_has_a_rule_that_is_checked_here():
    assert {name for marked in EXPECTED.values() for name in marked.split()} == {*FACILITIES, *TIERS}


@pytest.mark.processes
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("getattr(subprocess, 'run')([sys.executable, '-c', '0'], check=True)", "nothing marks it `processes`"),
        ("if not getattr(os, 'fork')(): getattr(os, '_exit')(0)", "forks, and nothing marks it `processes`"),
        (
            "with pytest.raises(OSError), socket.socket() as s: s.settimeout(0); s.connect(('192.0.2.1', 9))",
            "connects to 192.0.2.1: it may use no network",
        ),
        ("subprocess.run(['true'], check=True)", None),
    ],
)  # fmt: skip
def test_a_test_that_uses_more_than_its_marks_say_fails(pytester, body, said):
    head = "import os, socket, subprocess, sys\nimport pytest\n"
    result = run(pytester, f"{head}\n@pytest.mark.filterwarnings('ignore')\ndef test_it():\n    {body}\n", alone=True)
    result.assert_outcomes(passed=1, errors=0 if said is None else 1)
    if said is not None:
        result.stdout.fnmatch_lines([f"*{said}*"])


@pytest.mark.processes
def test_a_program_needs_its_own_mark(pytester, tmp_path):
    program = tmp_path / "java"
    program.symlink_to("/bin/true")
    head = "import pytest, subprocess\n@pytest.mark.core\n"
    test = f"{head}def test_it():\n    subprocess.run([{str(program)!r}], check=True)\n"
    result = run(pytester, test, alone=True)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*starts java, and nothing marks it*java*spark*"])


@pytest.mark.parametrize("folder", CORE_FOLDERS)
def test_folders_whose_tests_take_long_are_not_in_unit(folder):
    assert folder.is_dir()
    assert tier(set(), folder / "a" / "test_a.py") == "core"
    assert tier({"java"}, folder / "test_a.py") == "rest"


@pytest.mark.parametrize("folder", REST_FOLDERS)
def test_what_is_built_on_the_broker_is_in_rest(folder):
    assert folder.is_dir()
    assert tier(set(), folder / "a" / "test_a.py") == "rest"


def test_no_test_of_this_run_is_in_two_tiers_or_in_none(request):
    wrong = {item.nodeid for item in request.session.items if len(marks(item) & TIERS.keys()) != 1}
    assert wrong == set()


def test_what_is_stated_reaches_whoever_refers_to_it():
    @needs("postgres")
    def start(): ...

    assert reached(start) == {"postgres"}


def targets() -> dict[str, str]:
    """What the targets of the Makefile would run."""
    names = ("test-unit", "test", "test-rest", "test-all", "test-fast")
    made = {
        name: subprocess.run(["make", "-n", name], cwd=ROOT, capture_output=True, text=True, check=True)
        for name in names
    }
    return {name: done.stdout for name, done in made.items()}


def selected(recipe: str) -> str:
    (line,) = [line for line in recipe.splitlines() if " pytest " in line]
    words = shlex.split(line)
    return words[words.index("-m") + 1] if "-m" in words else ""


def test_the_targets_together_run_every_tier_and_none_twice():
    recipes = {name: selected(recipe) for name, recipe in targets().items()}
    assert recipes == {
        "test-unit": "unit",
        "test-fast": "unit",
        "test": "unit or core",
        "test-rest": "rest",
        "test-all": "",
    }
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]
    assert [command for command in commands if "test" in command][:2] == ["make test", "make test-rest"]


def test_the_page_says_each_mark(request):
    page = (ROOT / "compat_tests" / "README.md").read_text()
    assert {name for name in (*FACILITIES, *TIERS) if f"`{name}`" not in page} == set()
    assert Path(request.path).is_relative_to(HERE)
