"""A session recorded with a real Kafka is repeated with the shard: same requests, same answers.

Generic error messages are our own, so they are compared only where Kafka's message is more specific.
"""

import dataclasses
import json
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints
from uuid import UUID

import pytest
from metadata_shards import ShardUnderTest

from odradek.coordinator.metadata.controller.alter_configs import alter_configs, incremental_alter_configs
from odradek.coordinator.metadata.controller.create_partitions import create_partitions
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.controller.delete_topics import delete_topics
from odradek.coordinator.metadata.controller.shard import Operation
from odradek.coordinator.metadata.describe_configs import describe_configs
from odradek.wire.errors import ErrorCode
from odradek.wire.schema.schema import Struct

ANSWERS = json.loads((Path(__file__).parent / "data" / "kafka_4_3_1_answers.json").read_text())
STATIC = {"num.partitions": "3", "log.retention.minutes": "9000", "node.id": "1", "broker.id": "1"}

DIFFERENT = {
    "incremental_alter_configs: unknown op": "Kafka answers UNKNOWN_SERVER_ERROR; here it is named",
    "incremental_alter_configs: threads too many": "no thread pools, so no steps of theirs",
    "incremental_alter_configs: threads too few": "no thread pools, so no steps of theirs",
    "incremental_alter_configs: cleaner.threads many": "no thread pools, so no steps of theirs",
    "incremental_alter_configs: logger": "log levels cannot be changed at run time",
    "incremental_alter_configs: logger bad level": "log levels cannot be changed at run time",
    "incremental_alter_configs: client metrics": "client telemetry is not supported",
    "incremental_alter_configs: client metrics bad": "client telemetry is not supported",
    "incremental_alter_configs: client metrics del": "client telemetry is not supported",
    "describe_configs: metrics": "client telemetry is not supported",
    "describe_configs: metrics empty": "client telemetry is not supported",
    "describe_configs: loggers all": "loggers are Python's",
}
"""Cases whose answer differs on purpose."""

KAFKAS_GENERIC = ("This server does not host this", "This most likely occurs because of a request being malformed")
OPERATIONS: dict[str, Operation[Any, Any]] = {
    "alter_configs": alter_configs,
    "create_partitions": create_partitions,
    "create_topics": create_topics,
    "incremental_alter_configs": incremental_alter_configs,
}
MIN_INSYNC = "min.insync.replicas"
"""A setting of all brokers with the feature eligible.leader.replicas.version: always on here, off in the recording."""
UNORDERED = ("topics", "responses", "results", "configs", "synonyms")


def build(cls: type[Struct], values: dict[str, Any]) -> Struct:
    hints = get_type_hints(cls)
    return cls(**{name: convert(hints[name], value) for name, value in values.items()})


def convert(hint: Any, value: Any) -> Any:
    if value is None:
        return UUID(int=0) if hint is UUID else None
    if hint is UUID:
        return UUID(value)
    if isinstance(value, list):
        (element,) = [
            arg for each in (hint, *get_args(hint)) for arg in get_args(each)[:1] if get_args(each)[1:] == (...,)
        ]
        return tuple(convert(element, item) for item in value)
    return build(hint, value) if isinstance(value, dict) else value


def plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, UUID):
        return None if value.int == 0 else str(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value


def title_of(case: dict[str, Any]) -> str:
    return f"{case['api']}: {case['title']}"


def call(shard: ShardUnderTest, case: dict[str, Any], ids: dict[str, str]) -> Any:
    name = case["api"]
    module = import_module(f"odradek.wire.messages.{name}")
    class_name = "".join(part.capitalize() for part in name.split("_")) + "Request"
    text = json.dumps(case["request"])
    for theirs, ours in ids.items():
        text = text.replace(theirs, ours)
    request = build(getattr(module, class_name), json.loads(text))
    if name == "describe_configs":
        return plain(describe_configs(shard.shard.decision_context(0), request, {"root": "ERROR"}))
    if name == "delete_topics":
        return plain(shard.run(partial(delete_topics, api_version=case["version"]), request))
    return plain(shard.run(OPERATIONS[name], request))


def compare(ours: Any, real: Any, path: str) -> None:
    if isinstance(real, dict):
        for key, expected in real.items():
            if key == "error_message" and str(expected).startswith(KAFKAS_GENERIC):
                continue
            if key in ("topic_id", "documentation"):
                continue
            if key in ("config_source", "synonyms") and real.get("name") == MIN_INSYNC:
                continue
            compare(ours[key], expected, f"{path}.{key}")
    elif isinstance(real, list):
        if MIN_INSYNC not in [each["name"] for each in real if "name" in each]:
            ours = [each for each in ours if each.get("name") != MIN_INSYNC]
        if path.rpartition(".")[2] in UNORDERED:
            ours, real = sorted(ours, key=json.dumps), sorted(real, key=json.dumps)
            ours, real = sorted(ours, key=key_of), sorted(real, key=key_of)
        assert len(ours) == len(real), (path, ours, real)
        for index, (mine, expected) in enumerate(zip(ours, real, strict=True)):
            compare(mine, expected, f"{path}[{index}]")
    else:
        assert ours == real, (path, ours, real)


def key_of(item: dict[str, Any]) -> tuple[str, str]:
    return str(item.get("name") or item.get("resource_name") or ""), str(item.get("topic_id") or "")


def flush_as_kafka(answer: Any) -> None:
    """Reverts the one default that differs in these answers."""
    for topic in [*(answer.get("topics") or []), *(answer.get("results") or [])]:
        for config in topic.get("configs") or []:
            if config["name"] == "flush.messages" and config["config_source"] == 5:
                config["value"] = str(2**63 - 1)
                for synonym in config.get("synonyms") or []:
                    synonym["value"] = str(2**63 - 1)


def only_set_configs(answer: Any) -> None:
    for topic in answer.get("topics") or []:
        topic["configs"] = [config for config in topic["configs"] or [] if config["config_source"] == 1]


def test_every_answer_is_kafkas():
    shard = ShardUnderTest(STATIC)
    ids: dict[str, str] = {}
    compared = 0
    for case in ANSWERS:
        ours, real = call(shard, case, ids), case["response"]
        for mine in ours.get("topics") or []:
            theirs = [t for t in real["topics"] if t["name"] == mine["name"] and t.get("topic_id")]
            ids |= {t["topic_id"]: mine["topic_id"] for t in theirs if mine["topic_id"]}
        if title_of(case) in DIFFERENT:
            continue
        flush_as_kafka(ours)
        if case["title"] != "one topic":
            only_set_configs(ours)
        compare(ours, real, f"{case['title']} v{case['version']}")
        compared += 1
    assert compared == len(ANSWERS) - len(DIFFERENT)
    assert shard.replayed() == shard.image


@pytest.mark.parametrize("title", DIFFERENT)
def test_what_differs_is_answered_with_a_reason(title: str):
    (case,) = [case for case in ANSWERS if title_of(case) == title]
    shard = ShardUnderTest(STATIC)
    answer = call(shard, case, {})
    (result,) = answer.get("responses") or answer["results"]
    assert result["error_code"] in (ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert result["error_code"] == ErrorCode.NONE or result["error_message"]
