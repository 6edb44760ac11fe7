"""Files with long tests start first, and tests of a file stay together and in order."""

import pytest

FILES = {
    "test_short": "def test_a(): ...\ndef test_b(): ...",
    "test_middle": "import pytest\ndef test_a(): ...\n@pytest.mark.timeout(300)\ndef test_b(): ...",
    "test_also_short": "def test_a(): ...",
    "test_long": "import pytest\npytestmark = pytest.mark.timeout(timeout=900, func_only=True)\ndef test_a(): ...",
}
CONFTEST = """
import pytest
from compat_tests.order import long_files_first

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    long_files_first(items)
"""
pytest_plugins = ["pytester"]


def collected(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    """The node ids in the order in which they would run."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**FILES)
    found = pytester.runpytest_inprocess("--collect-only", "-q", "-p", "no:hypothesispytest", *arguments)
    return [line for line in found.outlines if "::" in line]


def test_files_with_longer_limits_come_first_and_the_rest_keeps_its_order(pytester):
    assert collected(pytester, "-p", "no:randomly") == [
        "test_long.py::test_a",
        "test_middle.py::test_a",
        "test_middle.py::test_b",
        "test_also_short.py::test_a",
        "test_short.py::test_a",
        "test_short.py::test_b",
    ]


def test_chance_decides_among_the_others_only(pytester):
    for seed in range(3):
        files = [
            node.partition("::")[0] for node in collected(pytester, "-p", "no:cacheprovider", f"--randomly-seed={seed}")
        ]
        assert files[:3] == ["test_long.py", "test_middle.py", "test_middle.py"]
