"""Byte equality with kio, an independent implementation generated from the same definitions."""

from importlib import import_module
from io import BytesIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from wire_catalogue import Choices, message_classes, messages, snake, versions_of

from odradek.wire.errors import ErrorCode
from odradek.wire.schema.codec import decode_exact, encode
from odradek.wire.schema.schema import Message

PLAIN = Choices(unknown_tags=False, small_numbers=True)
"""kio drops unknown tags, and converts numbers to error codes, dates and durations."""


def kio_class(cls: type[Message], version: int) -> type | None:
    kind = cls.__message__.kind
    name = snake(cls.__name__).removesuffix(f"_{kind}") if kind in ("request", "response") else snake(cls.__name__)
    path = schema_name_map.get(name, {}).get(version, {}).get(EntityType.__members__.get(kind))
    if path is None:
        return None
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


COVERED = [cls for cls in message_classes() if any(kio_class(cls, version) for version in versions_of(cls))]


def test_kio_covers_most_messages():
    assert len(COVERED) >= 150


@pytest.mark.parametrize("cls", COVERED, ids=lambda cls: cls.__name__)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_kio_reads_and_writes_the_same_bytes(cls: type[Message], data: st.DataObject):
    for version in versions_of(cls):
        other = kio_class(cls, version)
        if other is None:
            continue
        message = data.draw(messages(cls, version, PLAIN))
        content = bytes(encode(message, version))
        read, size = entity_reader(other)(content, 0)
        assert size == len(content)
        written = BytesIO()
        entity_writer(other)(written, read)
        assert written.getvalue() == content
        assert decode_exact(cls, version, written.getvalue()) == message


def test_error_codes_are_those_of_kio():
    theirs = {code.value: (code.name, code.retriable) for code in KioErrorCode}
    ours = {int(code): (code.name.lower(), code.retriable) for code in ErrorCode}
    assert {number: ours[number] for number in theirs} == theirs
    assert max(ours) - max(theirs) == len(ours) - len(theirs)
