"""Finds accesses to private names of other modules in the sources of tests, from their syntax trees."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
THIRD_PARTY = {
    "KafkaError._ALL_BROKERS_DOWN",  # the public names of librdkafka's own errors
    "KafkaError._PARTITION_EOF",
    "consumer._client",  # aiokafka has no other way to send a request without a method of its own
    "os._exit",
    "spark._jvm",
}
"""Names that only look private, or that their libraries leave no way around."""
WORDS = {"_busy", "_odradek"}
"""Strings in tests that equal a private name by chance: a function in a log line, a folder."""
BY_NAME = {"delattr", "getattr", "object", "setattr"}
"""Functions that take the name of an attribute, including `patch.object` and `monkeypatch.setattr`."""
MUTANTS = "mutants.py"
"""The ending of files with planted bugs. They pass private names to `plant`, which fails if a name does not exist."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in NAMED_TUPLES


def defined(tree: ast.AST) -> Iterator[str]:
    """The private names that a module defines: functions, classes, variables, attributes."""
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        if is_private(name):
            yield name


class Search(ast.NodeVisitor):
    """Searches one file. A string counts if it is one of `ours`, the private names that the packages define."""

    def __init__(self, ours: set[str], *, mutants: bool) -> None:
        self.ours = ours
        self.mutants = mutants
        self.found: list[tuple[int, str]] = []
        self.third_party: set[str] = set()
        self._classes = 0
        self._plants = False

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._classes += 1
        self.generic_visit(node)
        self._classes -= 1

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """A function that takes `patch` plants a bug, like those in files of mutants."""
        outside, self._plants = self._plants, self._plants or any(each.arg == "patch" for each in node.args.args)
        self.generic_visit(node)
        self._plants = outside

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        shown = ast.unparse(node)
        if not is_private(node.attr) or self._is_own(node.value):
            return
        if shown in THIRD_PARTY:
            self.third_party.add(shown)
        else:
            self.found.append((node.lineno, shown))

    def _is_own(self, owner: ast.expr) -> bool:
        """True if the object is the one that the code belongs to, also in a function that replaces a method."""
        if isinstance(owner, ast.Call):
            return isinstance(owner.func, ast.Name) and owner.func.id == "super"
        return isinstance(owner, ast.Name) and owner.id in ("self", "cls") and (self._classes > 0 or self.mutants)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.found += [(node.lineno, f"import {each.name}") for each in node.names if is_private(each.name)]

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if self.mutants and called in BY_NAME:
            named = [each.value for each in node.args if isinstance(each, ast.Constant)]
            self.found += [(node.lineno, repr(each)) for each in named if isinstance(each, str) and is_private(each)]
        planted = self._plants and called in ("inside", "plant")
        for each in ast.iter_child_nodes(node):
            if not (planted and isinstance(each, ast.Constant)):
                self.visit(each)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for each in node.values:
            if not isinstance(each, ast.Constant):
                self.visit(each)

    def visit_Constant(self, node: ast.Constant) -> None:
        if not isinstance(node.value, str) or self.mutants:
            return
        path = re.fullmatch(r"(?:\w+\.)*(_[A-Za-z]\w*)", node.value)
        if path and path[1] in self.ours - WORDS:
            self.found.append((node.lineno, repr(node.value)))


def search(path: Path, ours: set[str]) -> Search:
    """Searches `path` for private names of others: accesses, imports, and names as strings, as for `setattr`."""
    made = Search(ours, mutants=path.name.endswith(MUTANTS))
    made.visit(ast.parse(path.read_text()))
    return made
