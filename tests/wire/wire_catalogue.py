"""Every message of the wire package, Hypothesis strategies for each, the golden frames and Kafka's definitions."""

import json
import os
import pkgutil
import re
import tarfile
import zipfile
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import strategies as st

import odradek.wire.messages
import odradek.wire.stored
from compat_tests.needs import needs
from odradek.wire.schema.schema import FieldSpec, Message, Struct, Versions
from odradek.wire.schema.types import WireType

ROOT = Path(__file__).parents[2]
JARS = Path(os.environ.get("ODRADEK_JARS", ROOT / ".cache" / "jars"))
ARCHIVE = Path(__file__).parent / "data" / "golden_frames.tar.xz"


@cache
def message_classes() -> tuple[type[Message], ...]:
    """All messages and stored records."""
    found: dict[type[Message], None] = {}
    for package in (odradek.wire.messages, odradek.wire.stored):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for value in vars(import_module(module.name)).values():
                if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                    found[value] = None
    return tuple(found)


def versions_of(cls: type[Message]) -> range:
    known = cls.__message__.versions
    return range(known.first, known.last + 1)


INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6) | st.just("ü" * 80)
BLOBS = st.binary(max_size=6) | st.just(b"x" * 140)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.integers(*bounds) | st.sampled_from([*bounds, 0]) for name, bounds in INTEGERS.items()},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.just(UUID(int=0)) | st.uuids(),
    "string": TEXTS,
    "bytes": BLOBS,
    "records": BLOBS,
}
UNKNOWN_TAGS = st.just(()) | st.lists(
    st.tuples(st.integers(60, 2**31 - 1), st.binary(max_size=4)), max_size=2, unique_by=lambda item: item[0]
).map(lambda tags: tuple(sorted(tags)))


class Choices(NamedTuple):
    """Restrictions on the values; hashable, so that strategies can be cached."""

    unknown_tags: bool = True
    small_numbers: bool = False


ANY_VALUES = Choices()


@cache
def messages(cls: type[Message], version: int, choices: Choices = ANY_VALUES) -> st.SearchStrategy[Message]:
    """Values that ``version`` of ``cls`` can carry; fields that the version lacks have their defaults."""
    return structs(cls, version, version in cls.__message__.flexible, choices)


@cache
def structs(cls: type[Any], version: int, flexible: bool, choices: Choices) -> st.SearchStrategy[Any]:
    fields = {
        spec.name: field_values(spec, version, flexible, choices) for spec in cls.__fields__ if version in spec.versions
    }
    if flexible and choices.unknown_tags:
        fields["unknown_tagged_fields"] = UNKNOWN_TAGS
    return st.builds(cls, **fields)


def field_values(spec: FieldSpec, version: int, flexible: bool, choices: Choices) -> st.SearchStrategy[Any]:
    values = wire_values(spec.type, version, flexible, choices)
    if choices.small_numbers and spec.name.endswith("error_code"):
        values = st.integers(-1, 119)
    return st.none() | values if version in spec.nullable else values


def wire_values(kind: WireType[Any], version: int, flexible: bool, choices: Choices) -> st.SearchStrategy[Any]:
    if kind.element is not None:
        return st.lists(wire_values(kind.element, version, flexible, choices), max_size=2).map(tuple)
    if kind.struct is not None:
        return structs(kind.struct, version, flexible, choices)
    if choices.small_numbers and kind.name in INTEGERS:
        return st.integers(0, 100)
    return SCALARS[kind.name]


class GoldenFrame(NamedTuple):
    """A frame between a real client and Apache Kafka 4.4.0, without its length."""

    scenario: str
    api: str
    version: int
    is_request: bool
    content: bytes


@cache
def golden_frames() -> tuple[GoldenFrame, ...]:
    found: list[GoldenFrame] = []
    with tarfile.open(ARCHIVE) as archive:
        for member in sorted((m for m in archive if m.isfile()), key=lambda m: m.name):
            *folders, name = member.name.split("/")
            api, version, direction, _ = name.split(".")
            content = archive.extractfile(member)
            assert content is not None
            scenario = folders[-1] if folders else "."
            found.append(GoldenFrame(scenario, api, int(version[1:]), direction == "req", content.read()))
    return tuple(found)


@needs("java")
def need_jar(pattern: str) -> Path:
    """The newest jar that matches. Fails with instructions if there is none; skips if ODRADEK_NO_JAVA=1."""
    found = sorted(JARS.glob(pattern))
    if not found:
        if os.environ.get("ODRADEK_NO_JAVA") == "1":
            pytest.skip("not run: no Java, so Kafka's jars could not be fetched (ODRADEK_NO_JAVA=1)")
        pytest.fail(f"{JARS / pattern} is missing: run scripts/fetch_jars.sh, or set ODRADEK_JARS to a folder with it")
    return found[-1]


@cache
def kafka_definitions(pattern: str, folder: str) -> dict[str, dict[str, Any]]:
    """Kafka's message definitions in a jar, by name, with the field names in snake case."""
    found: dict[str, dict[str, Any]] = {}
    with zipfile.ZipFile(need_jar(pattern)) as jar:
        for name in jar.namelist():
            if name.startswith(folder) and name.endswith(".json"):
                definition = json.loads(without_comments(jar.read(name).decode()))
                found[definition["name"][0].upper() + definition["name"][1:]] = definition
    return found


def without_comments(text: str) -> str:
    strings_or_comments = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')
    return strings_or_comments.sub(lambda found: found[0] if found[0].startswith('"') else "", text)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def in_range(text: str | None) -> Versions:
    return Versions.parse(text or "none")


def struct_of(kind: WireType[Any]) -> type[Struct] | None:
    """The struct class of a field's type or of its elements."""
    return kind.element.struct if kind.element is not None else kind.struct
