"""Our schema compared with Kafka's own message definitions, field by field."""

from typing import Any
from uuid import UUID

import pytest
from wire_catalogue import in_range, kafka_definitions, message_classes, need_jar, snake, struct_of, versions_of

from odradek.wire.api_keys import (
    ADVERTISED,
    CONTROLLER_ADVERTISED,
    KAFKA_VERSIONS,
    OWN_VERSIONS,
    ApiKey,
)
from odradek.wire.messages import request_class, response_class
from odradek.wire.schema.schema import NO_VERSIONS, FieldSpec, Message, Struct
from odradek.wire.stored.framing import group_key_types, group_value_types, metadata_types, transaction_key_types

CLIENTS = ("kafka-clients-4.4.0.jar", "common/message/")
STORED = (
    ("kafka/kafka-group-coordinator-4.*.jar", "common/message/"),
    ("kafka/kafka-transaction-coordinator-4.*.jar", "common/message/"),
    ("kafka/kafka-metadata-4.*.jar", "common/metadata/"),
)
KINDS = {"coordinator-key": "key", "coordinator-value": "value"}


def definitions() -> dict[str, dict[str, Any]]:
    found = dict(kafka_definitions(*CLIENTS))
    for source in STORED:
        found |= kafka_definitions(*source)
    return {name: one for name, one in found.items() if one["validVersions"] != "none" and not is_of_other_groups(one)}


def is_of_other_groups(definition: dict[str, Any]) -> bool:
    """True for stored records of share and streams groups, which Odradek does not have."""
    return definition["type"] in KINDS and definition["name"].startswith(("ShareGroup", "StreamsGroup"))


OWN = {cls for key in OWN_VERSIONS for cls in (request_class(key), response_class(key))}


def test_every_message_of_kafka_is_there_and_no_other_but_our_own():
    assert {cls.__name__ for cls in message_classes() if cls not in OWN} == set(definitions())


@pytest.mark.parametrize("cls", [cls for cls in message_classes() if cls not in OWN], ids=lambda cls: cls.__name__)
def test_message_is_kafkas(cls: type[Message]):
    definition = definitions()[cls.__name__]
    info = cls.__message__
    assert info.kind == KINDS.get(definition["type"], definition["type"])
    assert info.api_key == definition.get("apiKey")
    assert info.versions == in_range(definition["validVersions"])
    assert info.flexible == in_range(definition.get("flexibleVersions"))
    assert info.unstable == definition.get("latestVersionUnstable", False)
    common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    compare_fields(cls, definition["fields"], common)


def compare_fields(cls: type[Struct], expected: list[dict[str, Any]], common: dict[str, Any]) -> None:
    assert [spec.name for spec in cls.__fields__] == [snake(one["name"]) for one in expected]
    for spec, one in zip(cls.__fields__, expected, strict=True):
        compare_field(cls, spec, one)
        nested = struct_of(spec.type)
        if nested is not None:
            compare_fields(nested, one.get("fields") or common[one["type"].removeprefix("[]")], common)


def compare_field(cls: type[Struct], spec: FieldSpec, expected: dict[str, Any]) -> None:
    where = f"{cls.__name__}.{spec.name}"
    nested = struct_of(spec.type)
    type_name = expected["type"]
    if nested is None:
        assert spec.type.name == type_name, where
    else:
        # If two messages of a module have different structs of one name, the message's name is its prefix.
        assert spec.type.name.removeprefix("[]").endswith(type_name.removeprefix("[]")), where
        assert spec.type.name.startswith("[]") == type_name.startswith("[]"), where
    tagged = in_range(expected.get("taggedVersions"))
    assert spec.tagged == tagged, where
    assert spec.tag == expected.get("tag"), where
    # A few tagged fields of stored records define only their tagged versions, or a wider range: those count.
    assert spec.versions == (in_range(expected["versions"]) if tagged == NO_VERSIONS else tagged), where
    assert spec.nullable == in_range(expected.get("nullableVersions")), where
    assert spec.ignorable == bool(expected.get("ignorable", False)), where
    assert (spec.flexible is None) == ("flexibleVersions" not in expected), where
    assert spec.default == default_of(spec, expected), where
    assert type(spec.default) is type(default_of(spec, expected)), where


def default_of(spec: FieldSpec, expected: dict[str, Any]) -> object:
    """The default by the rules of Kafka's generator: as given, else zero, empty, or no records."""
    given, kind = expected.get("default", ""), expected["type"]
    if given in (None, "null") or kind == "records":
        return None
    if kind.startswith("[]"):
        return ()
    if spec.type.struct is not None:
        return spec.type.struct()
    if kind == "bool":
        return str(given).lower() == "true"
    if kind in ("string", "bytes", "uuid"):
        return {"string": given, "bytes": b"", "uuid": UUID(int=0)}[kind]
    if kind == "float64":
        return float(given or 0)
    return int(str(given or 0), 0)


def test_the_version_table_is_kafkas():
    requests = {one["apiKey"]: one for one in definitions().values() if one["type"] == "request"}
    assert {int(key) for key in ApiKey} - set(OWN_VERSIONS) == set(KAFKA_VERSIONS) == set(requests)
    for key, served in KAFKA_VERSIONS.items():
        valid = in_range(requests[key]["validVersions"])
        unstable = requests[key].get("latestVersionUnstable", False)
        assert (served.first, served.last) == (valid.first, valid.last - unstable), key
        flexible = in_range(requests[key]["flexibleVersions"])
        assert served.flexible_from == (None if flexible == NO_VERSIONS else flexible.first), key


def test_request_and_response_classes_are_found_by_key():
    for key in ApiKey:
        for cls, kind in ((request_class(key), "request"), (response_class(key), "response")):
            assert (cls.__message__.api_key, cls.__message__.kind) == (key, kind)
        assert list(versions_of(request_class(key))) == list(versions_of(response_class(key)))


def test_advertised_versions_are_ones_that_kafka_serves():
    for key, (first, last) in ADVERTISED.items():
        served = (KAFKA_VERSIONS | OWN_VERSIONS)[key]
        assert served.first <= last <= served.last
        assert first >= served.first or key is ApiKey.PRODUCE


def test_stored_records_are_found_by_type():
    keys = group_key_types() | transaction_key_types()
    assert {"OffsetCommitKey": 1, "GroupMetadataKey": 2, "ConsumerGroupMetadataKey": 3}.items() <= {
        cls.__name__: number for number, cls in group_key_types().items()
    }.items()
    assert all(cls.__message__.kind == "key" for cls in keys.values())
    assert set(group_value_types()) == set(group_key_types())
    expected = {one["apiKey"]: name for name, one in definitions().items() if one["type"] == "metadata"}
    assert {number: cls.__name__ for number, cls in metadata_types().items()} == expected


def test_a_missing_jar_fails_with_an_instruction():
    with pytest.raises(pytest.fail.Exception, match=r"no-such\.jar is missing: run scripts/fetch_jars\.sh"):
        need_jar("no-such.jar")


def test_controller_listeners_offer_versions_of_kafka_and_no_other_api():
    requests = [one for one in kafka_definitions(*CLIENTS).values() if one["type"] == "request"]
    assert set(CONTROLLER_ADVERTISED) <= {one["apiKey"] for one in requests if "controller" in one.get("listeners", [])}
    for key, (first, last) in CONTROLLER_ADVERTISED.items():
        assert KAFKA_VERSIONS[key].first <= first <= last <= KAFKA_VERSIONS[key].last
