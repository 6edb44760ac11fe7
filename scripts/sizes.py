"""Prints the table of sizes in docs/architecture.md: modules, functions, docstrings and comments of our packages.

The gateway has a line for each of its folders, too.

`python scripts/sizes.py h11 trio` adds installed packages, without their tests.
"""

import ast
import importlib.util
import sys
import tokenize
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("wire", "partitions", "coordinator", "storage_backends", "gateway", "pipeline")
HEAD = (
    "| package | modules | lines | module: median, longest | functions | function: median, 90%, longest "
    "| docstrings | comments |\n|---|---|---|---|---|---|---|---|"
)
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def share_of(values: Sequence[int], share: float) -> int:
    """The value below which `share` of the sorted values are."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def docstring_lines(tree: ast.AST) -> int:
    """The number of lines of docstrings."""
    lines = 0
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines += (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def comments(path: Path) -> int:
    """The number of comments, without instructions to tools."""
    with path.open("rb") as source:
        found = [each.string for each in tokenize.tokenize(source.readline) if each.type == tokenize.COMMENT]
    return sum(not text.startswith(("# noqa", "# pyright", "# type:")) for text in found)


def row(name: str, paths: Iterable[Path]) -> str:
    """The line of the table for one package."""
    modules: list[int] = []
    functions: list[int] = []
    documented = commented = 0
    for path in paths:
        text = path.read_text()
        tree = ast.parse(text)
        modules.append(text.count("\n"))
        found = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        functions += [(each.end_lineno or each.lineno) - each.lineno + 1 for each in found]
        documented += docstring_lines(tree)
        commented += comments(path)
    lines = sum(modules)
    cells = (
        f"`{name}`",
        f"{len(modules)}",
        f"{lines:,}",
        f"{share_of(modules, 0.5)}, {max(modules)}",
        f"{len(functions):,}",
        f"{share_of(functions, 0.5)}, {share_of(functions, 0.9)}, {max(functions)}",
        f"{documented / lines:.1%}",
        f"{commented / lines:.1%}",
    )
    return f"| {' | '.join(cells)} |"


def installed(name: str) -> list[Path]:
    """The modules of an installed package, without its tests."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        sys.exit(f"{name} is not installed")
    folder = Path(found.origin).parent
    return [path for path in sorted(folder.rglob("*.py")) if "test" not in str(path.relative_to(folder))]


def ours() -> list[str]:
    """The lines of the table for our packages."""
    lines: list[str] = []
    for package in PACKAGES:
        lines.append(row(package, sorted((ROOT / package).rglob("*.py"))))
        if package == "gateway":
            lines += [row(f"gateway/{path.parent.name}", path.parent.rglob("*.py")) for path in _folders(package)]
    return lines


def _folders(package: str) -> list[Path]:
    return sorted((ROOT / package).glob("*/__init__.py"))


if __name__ == "__main__":
    print(HEAD)
    print(*ours(), sep="\n")
    for package in sys.argv[1:]:
        print(row(package, installed(package)))
