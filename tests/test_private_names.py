"""Which accesses count as access to private names of other modules."""

import ast

import pytest
from private_names import Search


def found(code: str, *, mutants: bool = False) -> list[str]:
    search = Search({"_x"}, mutants=mutants)
    search.visit(ast.parse(code))
    return [shown for _, shown in search.found]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("a.b._x", "a.b._x"),
        ("lambda self: self._x", "self._x"),
        ("from m import _x", "import _x"),
        ("setattr(a, '_x', 1)", "'_x'"),
        ("STEPS = {'one': (A, '_x')}", "'_x'"),
        ("patch('m.A._x')", "'m.A._x'"),
        ("f'{a._x}'", "a._x"),
        ("inside(A, '_x')", "'_x'"),
        ("def bug(patch): patch.setattr(A, '_x', 1)", "'_x'"),
        ("def bug(patch): plant(patch, A, '_x', a._x)", "a._x"),
    ],
)
def test_what_counts(code: str, shown: str) -> None:
    assert found(code) == [shown]


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    def f(self): return self._x",
        "class B(A):\n    def f(self): return super()._x()",
        "def bug(patch):\n    x = inside(A, '_x')\n    plant(patch, A, '_x', x)",
        "point._replace(x=1)",
        "os._exit(1)",
        "'_of_nothing'",
        "f'{name}_x'",
        "a.__dict__",
    ],
)
def test_what_does_not(code: str) -> None:
    assert found(code) == []


def test_bugs_in_files_of_mutants() -> None:
    assert found("plant(patch, A, '_x', lambda self: self._x)", mutants=True) == []
    assert found("patch.setattr(A, '_x', 1)", mutants=True) == ["'_x'"]
    assert found("A._x", mutants=True) == ["A._x"]
