"""Waits until every broker shows what the controller has decided about topics."""

# ruff: noqa: ANN401 - kafka-python has no types

import importlib
import time
from collections.abc import Sequence
from typing import Any, Final

from odradek.gateway.cli.client import RETRY_PAUSE_S, Admin, library, send
from odradek.gateway.cli.output import note
from odradek.wire.errors import ErrorCode

LIMIT_S: Final = 5.0
NOT_YET: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


def await_topics(admin: Admin, names: Sequence[str], *, exist: bool) -> None:
    """Wait until all brokers show these topics, or, unless `exist`, until none does; returns after `LIMIT_S` anyway.

    A change is answered once the controller has committed it, and each broker applies it a moment later. The next
    command may ask any of them, and would not see it. Brokers that do not answer are left out; those that are late are
    named in a note.
    """
    if not names:
        return
    deadline = time.monotonic() + LIMIT_S
    request = _metadata_request(names)
    answer = _answer(admin, request)
    late = [broker.node_id for broker in answer.brokers] if answer else []
    while late := [node for node in late if _lags(admin, node, request, exist=exist)]:
        if time.monotonic() >= deadline:
            note(f"brokers that do not show this yet: {', '.join(map(str, sorted(late)))}")
            return
        time.sleep(RETRY_PAUSE_S)


def _metadata_request(names: Sequence[str]) -> Any:
    kind = importlib.import_module("kafka.protocol.metadata").MetadataRequest
    return kind(topics=[kind.MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)


def _lags(admin: Admin, node: int, request: Any, *, exist: bool) -> bool:
    answer = _answer(admin, request, node)
    wrong = NOT_YET if exist else (ErrorCode.NONE,)
    return answer is not None and any(topic.error_code in wrong for topic in answer.topics)


def _answer(admin: Admin, request: Any, node: int | None = None) -> Any:
    """Returns None if the broker does not answer: what the controller has decided is done all the same."""
    try:
        return send(admin, request, node=node, timeout_ms=int(LIMIT_S * 1000))
    except library().errors.KafkaError:
        return None
