"""Messages behave as frozen, slotted, keyword-only dataclasses; error codes have descriptions."""

import ast
import dataclasses
import subprocess
import sys

import pytest

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.produce import PartitionProduceData, TopicProduceData
from odradek.wire.schema.schema import Versions


def test_fields_have_kafkas_defaults():
    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(
        group_id="g", generation_id=0, member_id="", group_instance_id=None
    )


def test_a_message_cannot_be_changed():
    request = HeartbeatRequest()
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.group_id = "x"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del request.group_id
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.no_such_field = 1  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(request, "__dict__")


def test_a_field_that_does_not_exist_is_refused():
    with pytest.raises(TypeError):
        HeartbeatRequest(no_such_field=1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError):
        HeartbeatRequest("positional")  # pyright: ignore[reportCallIssue]


def test_the_dataclasses_module_works():
    request = HeartbeatRequest(group_id="g")
    assert dataclasses.is_dataclass(request)
    assert [one.name for one in dataclasses.fields(request)][:2] == ["group_id", "generation_id"]
    changed = dataclasses.replace(request, generation_id=3)
    assert (changed.group_id, changed.generation_id, request.generation_id) == ("g", 3, 0)


def test_messages_compare_and_hash_by_value():
    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(group_id="g")
    assert HeartbeatRequest(group_id="g") != HeartbeatRequest(group_id="h")
    assert HeartbeatRequest() != HeartbeatRequest(unknown_tagged_fields=((9, b""),))
    assert len({HeartbeatRequest(group_id="g"), HeartbeatRequest(group_id="g")}) == 1
    assert TopicProduceData() != PartitionProduceData()


def test_a_message_shows_its_fields():
    assert repr(PartitionProduceData(index=1)) == "PartitionProduceData(index=1, records=None)"


@pytest.mark.parametrize(
    ("text", "inside", "outside"), [("3", [3], [2, 4]), ("0-2", [0, 2], [3]), ("4+", [4, 999], [3]), ("none", [], [0])]
)
def test_versions_in_kafkas_notation(text: str, inside: list[int], outside: list[int]):
    parsed = Versions.parse(text)
    assert all(version in parsed for version in inside)
    assert not any(version in parsed for version in outside)


def test_every_error_code_has_a_message_of_its_own():
    messages = [code.message for code in ErrorCode]
    assert len(set(messages)) == len(messages)
    assert all(message and not message.endswith(".") for message in messages)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.INVALID_RECORD.retriable


def test_importing_the_codec_imports_no_message():
    """For a quick start, message modules are imported when their API is first used."""
    loaded = "sorted(m for m in sys.modules if m.startswith('odradek.wire.messages.'))"
    code = f"import sys, odradek.wire.headers; print({loaded})"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ast.literal_eval(shown.stdout) == []
