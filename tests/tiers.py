"""The tier of each test, found at collection from what the test uses.

A test's marks say what it needs: a JVM, a database, processes and so on (`FACILITIES`). There is no list of tests: what
starts one of these states it with `needs`, and a test has the mark if the test, one of its fixtures or a parameter
reaches such a function by the names in its code. The marks decide the tier, of which each test has exactly one.
`tests/tier_watch.py` fails a test that starts what its marks do not say.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from compat_tests.needs import FACILITIES, is_whole, needed_by
from compat_tests.order import limit_s

ROOT = Path(__file__).resolve().parent.parent
TIERS = {
    "unit": "`make test-unit`: needs nothing but Python",
    "core": "`make test`, besides `unit`: the main promise, with kills, databases and a real Kafka",
    "rest": "`make test-rest`: what `make test` does not run",
}
CORE_FOLDERS = (ROOT / "tests" / "simulation",)
"""Tests that take too much time for `unit`, though they need nothing."""
REST_FOLDERS = (ROOT / "tests" / "pipeline", ROOT / "tests" / "examples")
"""Tests of what is built on the broker."""
FOLDERS = tuple(ROOT / name for name in ("tests", "compat_tests", "benchmarks", "examples"))
STARTERS = {
    "subprocess": {"processes": {"Popen", "run", "call", "check_call", "check_output"}},
    "multiprocessing": {"processes": {"Process", "Pool", "get_context"}},
    "os": {"processes": {"fork", "posix_spawn"}},
    "trio": {"processes": {"run_process"}},
    "odradek": {"processes": {"cluster"}},
    "odradek.testing": {"processes": {"cluster"}},
    "odradek.gateway.testing.cluster": {"processes": {"cluster"}},
    "odradek.gateway.supervision.supervisor": {"processes": {"Supervisor", "SupervisedNode"}},
    "odradek.pipeline": {"spark": {"spark_session"}},
}
"""What others offer, and what it needs: module, facility, names."""
_OFFERED = {name for offers in STARTERS.values() for names in offers.values() for name in names}


def mark(items: Iterable[pytest.Item], default_limit_s: float) -> None:
    """Adds the marks of what each test needs, and the mark of its tier."""
    for item in items:
        for facility in sorted(facilities(item, default_limit_s)):
            item.add_marker(facility)
        item.add_marker(tier(marks(item), item.path))


def marks(item: pytest.Item) -> set[str]:
    """The names of a test's marks."""
    return {each.name for each in item.iter_markers()}


def facilities(item: pytest.Item, default_limit_s: float) -> set[str]:
    """What a test needs, by its own marks, by what it reaches and by its time limit."""
    found = marks(item) & FACILITIES.keys()
    for start in _starts(item):
        found |= reached(start)
    if limit_s(item) > default_limit_s:
        found.add("long")
    return found


def tier(names: set[str], path: Path) -> str:
    """The tier of a test with these marks: `core` may be stated by the test; `unit` needs nothing."""
    if "core" in names:
        return "core"
    if any(path.is_relative_to(folder) for folder in REST_FOLDERS):
        return "rest"
    if names & FACILITIES.keys():
        return "rest"
    return "core" if any(path.is_relative_to(folder) for folder in CORE_FOLDERS) else "unit"


def _starts(item: pytest.Item) -> Iterator[Any]:
    """The test, its fixtures, and what it is called with."""
    assert isinstance(item, pytest.Function)
    yield item.function
    places = _places(item)
    yield from _fixtures(item.fixturenames, places)
    callspec = getattr(item, "callspec", None)
    for value in callspec.params.values() if callspec is not None else ():
        if isinstance(value, FunctionType | type):
            yield value
        elif isinstance(value, str) and value == "postgres":  # the name of a fixture, for `request.getfixturevalue`
            yield from _fixtures([value], places)


def _fixtures(names: Iterable[str], places: list[Any]) -> Iterator[Any]:
    """The fixtures of these names, and those that they take."""
    left, seen = list(names), set[str]()
    while left:
        name = left.pop()
        found = [vars(place)[name] for place in places if name in vars(place)] if name not in seen else []
        seen.add(name)
        for each in found:
            yield each
            code = getattr(inspect.unwrap(each), "__code__", None)
            left += code.co_varnames[: code.co_argcount] if code is not None else ()


def _places(item: pytest.Function) -> list[Any]:
    """Where the test's fixtures may be: its class, its module, the conftests above it."""
    classes = [] if item.cls is None else list(item.cls.__mro__)
    return [*classes, item.module, *_conftests(item.config.pluginmanager, item.path.parent)]


@cache
def _conftests(manager: pytest.PytestPluginManager, folder: Path) -> list[ModuleType]:
    modules = [each for each in manager.get_plugins() if isinstance(each, ModuleType)]
    files = [(Path(getattr(each, "__file__", None) or "/"), each) for each in modules]
    return [each for file, each in files if file.name == "conftest.py" and folder.is_relative_to(file.parent)]


@cache
def reached(start: Any) -> frozenset[str]:
    """What a function, or any function of the tests that it refers to, needs."""
    needed: set[str] = set()
    seen: set[int] = set()
    left = [start]
    while left:
        target = inspect.unwrap(left.pop())
        if id(target) not in seen:
            seen.add(id(target))
            own, following = _looked_into(target)
            needed |= own
            left += following
    return frozenset(needed)


@cache
def _looked_into(target: Any) -> tuple[frozenset[str], tuple[Any, ...]]:
    """What a function or class needs itself, and what it refers to."""
    if is_whole(target):
        return needed_by(target), ()
    if isinstance(target, type):
        parts = [*target.__bases__, *map(_function, vars(target).values())]
        return needed_by(target), tuple(part for part in parts if _is_ours(part))
    if not isinstance(target, FunctionType):
        return needed_by(target), ()
    needed = set(needed_by(target))
    following: list[Any] = []
    for names in map(_names, _codes(target.__code__)):
        following += [member for name in names if _is_ours(member := _function(vars(_class_of(target)).get(name)))]
        for name in names:
            value = target.__globals__[name] if name in target.__globals__ else sys.modules.get(name)
            needed |= _offered(value, names)
            following += _ours_of(value, names)
    return frozenset(needed), tuple(following)


def _class_of(method: FunctionType) -> Any:
    """The class of a method, to which `self` refers; its module if it has none."""
    outer = method.__globals__.get(method.__qualname__.partition(".")[0])
    return outer if isinstance(outer, type) else sys.modules.get(method.__module__, method)


def _offered(value: Any, names: frozenset[str]) -> set[str]:
    """What is needed to use something of others: names of a module, or a function of one."""
    if isinstance(value, ModuleType):
        return {facility for facility, offers in STARTERS.get(value.__name__, {}).items() if offers & names}
    if not callable(value) or getattr(value, "__name__", None) not in _OFFERED:
        return set()
    modules = [(vars(sys.modules[name]), offers) for name, offers in STARTERS.items() if name in sys.modules]
    of_all = [
        (module.get(name), facility) for module, offers in modules for facility in offers for name in offers[facility]
    ]
    return {facility for offered, facility in of_all if offered is value}


def _ours_of(value: Any, names: frozenset[str]) -> list[Any]:
    """The functions and classes of the tests that a value stands for."""
    if isinstance(value, ModuleType):
        return [each for name in names if _is_ours(each := vars(value).get(name))] if _in_tests(value.__name__) else []
    if isinstance(value, list | tuple):
        return [each for each in value if _is_ours(each)]
    return [value] if _is_ours(value) else []


@cache
def _codes(code: CodeType) -> list[CodeType]:
    """A function's code, and that of the functions in it."""
    return [code, *(each for inner in code.co_consts if isinstance(inner, CodeType) for each in _codes(inner))]


@cache
def _names(code: CodeType) -> frozenset[str]:
    return frozenset(code.co_names)


def _function(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    return inspect.unwrap(getattr(member, "__func__", member))


def _is_ours(value: Any) -> bool:
    """True for functions and classes of the tests."""
    return callable(value) and _in_tests(getattr(value, "__module__", None) or "")


@cache
def _in_tests(module: str) -> bool:
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and any(Path(file).resolve().is_relative_to(folder) for folder in FOLDERS)
