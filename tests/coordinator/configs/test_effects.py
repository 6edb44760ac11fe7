"""Every setting has an effect, is refused, or is described as one without effect; the test searches the code for this.

If a test here fails for a setting that you add: let production code read it (a field of `BrokerConfig` with its name in
`SIMPLE_SETTINGS`, read as `config.field`; or its name as a literal: `basis.number("name")`), or add it to
`WITHOUT_EFFECT` in coordinator/configs/effects.py with a reason. Then: `odradek configs list --markdown >
docs/settings.md`.
"""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from odradek.coordinator.configs.effects import AT_START, SCOPES, WITHOUT_EFFECT, without_effect
from odradek.coordinator.configs.protections import PROTECTIONS
from odradek.coordinator.configs.tables import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    TOPIC_SYNONYMS,
    is_dynamic,
)
from odradek.gateway.cli.settings_list import page
from odradek.gateway.config.broker_config import SIMPLE_SETTINGS

ROOT = Path(__file__).parents[3]
TABLES = dict(zip(SCOPES, (BROKER_CONFIGS, TOPIC_CONFIGS, GROUP_CONFIGS, CLIENT_METRICS_CONFIGS), strict=True))
EVERY = [(scope, name) for scope, table in TABLES.items() for name in table]
DESCRIBE_ONLY = re.compile(
    r"coordinator/configs/(\w+_defs|tables|differences|effects|protections|validation|describe|log_settings)\.py"
    r"|gateway/config/rules\.py|gateway/metadata/settings\.py|gateway/metrics/.*|gateway/testing/.*|gateway/cli/.*"
)
"""Code that names, copies or checks settings without acting on them."""
HOLDERS = re.compile(r"(^|[._])(config|settings|consumer)(\(\))?$")
"""Expressions that settings are read from: `self._config.x`, `services.config.x`, `table.config.consumer.x`."""
FIELDS = {name: field for field, name in SIMPLE_SETTINGS.items()} | {
    "broker.rack": "rack",
    "internal.segment.bytes": "segment_bytes",
    "log.dir": "storage_url",
    "log.dirs": "storage_url",
    "odradek.storage": "storage_url",
}
"""The field for each setting whose field name is not the setting's name with underscores."""


def production() -> list[str]:
    packages = ("partitions", "coordinator", "gateway", "storage_backends")
    listed = subprocess.run(["git", "ls-files", *packages], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split() if name.endswith(".py") and not DESCRIBE_ONLY.fullmatch(name)]


def constants_of(trees: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """The constants of all files by name, since a file may use another file's constant."""
    return {
        target.id: node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and (isinstance(node, ast.AnnAssign) or target.id.isupper())
    }


def read_in(name: str, tree: ast.AST, constants: Mapping[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """What a file reads, as (kind, text); the kinds are a literal name, a field, and the pattern of a composed name."""
    for node in ast.walk(tree):
        for text in texts_of(node):
            yield from of_text(constants.get(text.id, text) if isinstance(text, ast.Name) else text)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            holder = ast.unparse(node.value)
            if HOLDERS.search(holder) or (holder == "self" and name.endswith("config.py")):
                yield "field", node.attr


def texts_of(node: ast.AST) -> Sequence[ast.expr]:
    """Expressions where a setting's name may occur: an argument, a subscript, an element of a sequence."""
    if isinstance(node, ast.Call):
        return node.args
    if isinstance(node, ast.Subscript):
        return [node.slice]
    return node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []


def of_text(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield "literal", node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [re.escape(each.value) if isinstance(each, ast.Constant) else ".+" for each in node.values]
        if sum(map(str.isalpha, "".join(parts))) >= LETTERS_OF_A_NAME:
            yield "pattern", "".join(parts)


LETTERS_OF_A_NAME = 8
"""A composed text with fewer fixed letters matches too much."""


@cache
def reads() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"literal": set(), "field": set(), "pattern": set()}
    trees = {name: ast.parse((ROOT / name).read_text()) for name in production()}
    constants = constants_of(trees.values())
    for name, tree in trees.items():
        for kind, text in read_in(name, tree, constants):
            found[kind].add(text)
    return found


@cache
def copied() -> dict[str, str]:
    """Fields of `BrokerConfig` that are copied for the logs, by their names in `LogConfig`."""
    tree = ast.parse((ROOT / "gateway" / "metadata" / "settings.py").read_text())
    keywords = (each for node in ast.walk(tree) if isinstance(node, ast.Call) for each in node.keywords)
    return {
        each.value.attr: each.arg
        for each in keywords
        if each.arg and isinstance(each.value, ast.Attribute) and ast.unparse(each.value.value) == "self.config"
    }


def field_of(name: str) -> str:
    field = FIELDS.get(name, name.removeprefix("odradek.").replace(".", "_"))
    return copied().get(field, field)


def is_read(scope: str, name: str) -> bool:
    found = reads()
    if scope == "broker":
        feeds = [topic for topic, chain in TOPIC_SYNONYMS.items() if any(each.name == name for each in chain)]
        if any(is_read("topic", topic) for topic in feeds):
            return True
    return name in found["literal"] or field_of(name) in found["field"]


def is_composed(name: str) -> bool:
    """True if code composes the name, as in `f"{prefix}.num.partitions"`."""
    texts = (name, field_of(name))
    return any(re.fullmatch(pattern, text) for pattern in reads()["pattern"] for text in texts)


@pytest.mark.parametrize(("scope", "name"), EVERY)
def test_a_setting_acts_or_is_described_as_not_acting(scope: str, name: str):
    refused = scope == "broker" and name in PROTECTIONS
    if without_effect(scope, name) is None and not refused:
        assert is_read(scope, name) or is_composed(name), f"{scope} setting {name}: no code reads it; {__doc__}"
    else:
        assert not is_read(scope, name), f"{scope} setting {name} is read, though effects.py says it has no effect"


@pytest.mark.parametrize("entry", WITHOUT_EFFECT, ids=lambda entry: f"{entry.scope}-{entry.names[0]}")
def test_every_entry_names_settings_that_exist(entry):
    for pattern in entry.names:
        expression = pattern.replace(".", r"\.").replace("*", ".*")
        assert any(re.fullmatch(expression, name) for name in TABLES[entry.scope]), pattern


def test_the_page_of_settings_is_up_to_date():
    """If it is not: `odradek configs list --markdown > docs/settings.md`."""
    assert (ROOT / "docs" / "settings.md").read_text() == page()


@pytest.mark.parametrize(
    "code",
    [
        'NAME: Final = "a.b"\nvalues[NAME]',
        'NAME = "a.b"\nlook_up(NAME)',
        'NAME = "a.b"\n[values[each] for each in (OTHER, NAME)]',
        'look_up("a.b")',
        'for each in ("c.d", "a.b"): look_up(each)',
    ],
)
def test_a_read_is_found(code: str):
    tree = ast.parse(code)
    assert ("literal", "a.b") in set(read_in("some.py", tree, constants_of([tree])))


def test_what_is_read_at_the_start_could_change_at_run_time():
    assert all(is_dynamic(name) and without_effect("broker", name) is None for name in AT_START)
