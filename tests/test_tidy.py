"""Rules of size and purity that no linter checks."""

import ast
import re
import runpy
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
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
"""The allowed number of accesses to private names in tests.

Each has a comment with the reason; planted bugs go through `plant`.
"""
PACKAGES = ("wire", "partitions", "coordinator", "storage_backends", "gateway", "pipeline", "odradek")
PURE = ("wire", "partitions", "coordinator")
SLACK = (3, 200, 40, 40, 10, 4, 4, 8, 1.5, 0.8)
"""The allowed absolute deviation of each number in the table of sizes, where a tenth of it is less."""


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


def sizes_of(line: str) -> tuple[str, list[float]]:
    name, *cells = (cell.strip() for cell in line.strip("| \n").split("|"))
    return name, [float(number.strip("%").replace(",", "")) for cell in cells for number in cell.split(", ")]


def test_the_table_of_sizes_is_true() -> None:
    """`scripts/sizes.py` prints the table; deviations below a tenth are allowed."""
    written = dict(sizes_of(line) for line in (ROOT / "docs/architecture.md").read_text().split("\n") if "% |" in line)
    computed = dict(map(sizes_of, runpy.run_path(str(ROOT / "scripts/sizes.py"))["ours"]()))
    assert written.keys() - computed.keys() == {"`h11`", "`trio`"}
    stale = {
        name: (written.get(name), sizes)
        for name, sizes in computed.items()
        for before, now, slack in zip_longest(written.get(name, ()), sizes, SLACK, fillvalue=-1000)
        if abs(before - now) > max(now / 10, slack)
    }
    assert stale == {}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def our_classes() -> dict[str, list[ast.ClassDef]]:
    found = defaultdict[str, list[ast.ClassDef]](list)
    for path in tracked():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(node)
    return found


def has_member(class_name: str, member: str) -> bool:
    """True if a class of this name, or a base, defines the member in its body or as an attribute of self."""
    for cls in our_classes().get(class_name, ()):
        for node in ast.walk(cls):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    is_it = name == member
                case ast.Attribute(value=ast.Name(id="self"), attr=attribute, ctx=ast.Store()):
                    is_it = attribute == member
                case _:
                    continue
            if is_it:
                return True
        bases = (base.value if isinstance(base, ast.Subscript) else base for base in cls.bases)
        if any(has_member(ast.unparse(base).split(".")[-1], member) for base in bases):
            return True
    return False


def prose() -> Iterator[tuple[str, str]]:
    """The architecture pages, and the docstrings of modules."""
    for path in (ROOT / "docs/architecture.md", *sorted((ROOT / "docs/internals").glob("*.md"))):
        yield str(path.relative_to(ROOT)), path.read_text()
    for path in tracked():
        yield str(path.relative_to(ROOT)), ast.get_docstring(parsed(path)) or ""


def test_files_and_members_that_prose_names_exist() -> None:
    paths = {f"/{path.relative_to(ROOT)}" for path in tracked()}
    missing: list[str] = []
    for where, text in prose():
        pictures, words = re.findall(r"```.*?```", text, re.DOTALL), re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        files = re.findall(r"`([\w./]+\.py)`", words) + re.findall(r"[\w./]+\.py\b", " ".join(pictures))
        members = re.findall(r"`(_?[A-Z]\w*[a-z]\w*)\.(\w+)(?:\(.*?\))?`", words)
        missing += [f"{where}: {name}" for name in files if not any(path.endswith(f"/{name}") for path in paths)]
        missing += [f"{where}: {cls}.{name}" for cls, name in members if not has_member(cls, name)]
    assert missing == []


def test_the_map_has_every_part_of_the_gateway() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    [row] = [line for line in page.split("\n") if line.startswith("| `gateway/`")]
    parts = {path.relative_to(ROOT / "gateway").parts[0] for path in tracked("gateway")} - {"__init__.py"}
    assert [part for part in sorted(parts) if f"`{part}" not in row] == []


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
    """They are imported by their bare names, so in one process the second would be taken for the first."""
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
