"""The rules of size and purity that no linter holds."""

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from private_names import THIRD_PARTY, defined, search

ROOT = Path(__file__).parent.parent
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
MEDIAN_FUNCTION_LINES = 9
TABLES = {
    "coordinator/configs/broker_defs.py",
    "coordinator/configs/topic_defs.py",
    "wire/error_codes.py",
}
"""Pure tables, which may be long."""
PRIVATE_ACCESSES = 1
"""How often tests reach into what is private elsewhere. Each says why at its place; planted bugs go through `plant`."""
PACKAGES = ("wire", "partitions", "coordinator", "storage_backends", "gateway", "pipeline", "odradek")
PURE = ("wire", "partitions", "coordinator")


def tracked(*folders: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / name for name in listed.stdout.split("\n") if name.endswith(".py") and (ROOT / name).exists()]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def test_files_stay_small() -> None:
    sizes = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in tracked()}
    assert {name: size for name, size in sizes.items() if size > MAX_FILE_LINES and name not in TABLES} == {}


def test_functions_stay_small() -> None:
    assert {name: size for path in tracked() for name, size in functions(path) if size > MAX_FUNCTION_LINES} == {}


@pytest.mark.parametrize("package", ["wire", "partitions", "coordinator", "storage_backends", "gateway"])
def test_the_median_function_is_short(package: str) -> None:
    sizes = sorted(size for path in tracked(package) for _, size in functions(path))
    assert sizes[len(sizes) // 2] <= MEDIAN_FUNCTION_LINES


def test_pure_packages_never_await() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in tracked(*PURE)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    assert found == []


def test_every_handler_is_named_as_its_messages() -> None:
    handlers = {path.stem for path in tracked("gateway/handlers")} - {"__init__"}
    messages = {path.stem for path in tracked("wire/messages")}
    assert handlers <= messages


def test_every_advertised_api_has_a_handler() -> None:
    from odradek.wire.api_keys import ADVERTISED

    handlers = {path.stem for path in tracked("gateway/handlers")}
    assert {key.name.lower() for key in ADVERTISED} <= handlers


def test_no_two_modules_of_tests_have_one_name() -> None:
    """They are imported by their bare names: in one process the second would be taken for the first."""
    names = Counter(path.name for path in tracked("tests") if path.name not in {"__init__.py", "conftest.py"})
    assert [name for name, count in names.items() if count > 1] == []


def test_tests_reach_through_public_doors() -> None:
    ours = {name for path in tracked(*PACKAGES) for name in defined(ast.parse(path.read_text()))}
    own_words = ROOT / "tests" / "private_names.py"
    searched = {
        path: search(path, ours) for path in tracked("tests", "compat_tests", "benchmarks") if path != own_words
    }
    found = [f"{path.relative_to(ROOT)}:{line} {shown}" for path, one in searched.items() for line, shown in one.found]
    assert len(found) <= PRIVATE_ACCESSES, "\n".join(found)
    assert {shown for one in searched.values() for shown in one.third_party} == THIRD_PARTY


def test_no_path_of_a_machine_is_named() -> None:
    listed = subprocess.run(
        ["git", "grep", "-nE", r"/(work|home/[a-z]+)/[a-z]"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert [line for line in listed.stdout.split("\n") if line and "test_tidy.py" not in line] == []
