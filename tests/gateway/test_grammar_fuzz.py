"""A grammar fuzz of every API and version: each frame is answered or closes its connection; other clients are served.

The seed is printed, and repeats the frames: `ODRADEK_FUZZ_SEED=… pytest …`.
"""

import gc
import logging
import os
import secrets
import struct
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from gateway_brokers import ProductionEnvironment, ThreadBroker
from gateway_client import TIMEOUT_S, RawClient, batch_of
from request_grammar import TOPICS, Grammar, waits_long

from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.headers import decode_response
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.metadata import MetadataRequest
from tests.long_form import rounds

FRAMES = rounds(12_000, 200_000)
SENTINEL = 0x5EED
VICTIM_EVERY = 100
MAX_GROWTH_BYTES = 100 * 1024 * 1024
WAITING = {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
"""Answers to these may wait for other members, so the connection is closed instead."""
WAIT_LIMIT_S = 0.05
SETTINGS = {
    "odradek_topics_max": 50,
    "odradek_partitions_max": 500,
    "group_max_size": 50,
    "group_consumer_max_size": 50,
    "odradek_loop_stall_warn_ms": 100,
    "log_retention_ms": -1,
}


class Complaints(logging.Handler):
    """Collects internal errors from the broker's log, each with the frame in flight."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.frame = b""
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or "internal error" in record.getMessage():
            self.found.append(f"{logging.Formatter().format(record)}\nframe: {self.frame[:2000].hex()}")


class Fuzz:
    """Sends one frame at a time, followed by a sentinel request whose answer shows that the frame is handled."""

    def __init__(self, broker: ThreadBroker, complaints: Complaints) -> None:
        self.broker, self.complaints = broker, complaints
        self.outcomes: Counter[str] = Counter()
        self._client: RawClient | None = None
        self._sentinel = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, SENTINEL, -1)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def send(self, frame: bytes) -> None:
        self.complaints.frame = frame
        client = self._client = self._client or RawClient(self.broker.address)
        number, version = struct.unpack_from(">hh", frame)
        key = ApiKey(number)
        client.set_timeout(WAIT_LIMIT_S if key in WAITING else TIMEOUT_S)
        try:
            client.send_frame(frame)
            client.send_frame(self._sentinel)
            self.outcomes[self._answers(client, key, version)] += 1
        except TimeoutError:
            assert key in WAITING, f"no answer to {frame.hex()}"
            self._end("waiting")
        except (EOFError, ConnectionError):
            self._end("closed")

    def _end(self, outcome: str) -> None:
        self.outcomes[outcome] += 1
        self.close()

    def _answers(self, client: RawClient, key: ApiKey, version: int) -> str:
        answer = client.receive_frame()
        if answer[:4] == struct.pack(">i", SENTINEL):
            assert key is ApiKey.PRODUCE, f"{key.name} v{version} was not answered"
            return "unanswered"
        decode_response(key, version, answer)
        assert client.receive_frame()[:4] == struct.pack(">i", SENTINEL)
        return "answered"


def memory_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def look_after(fuzz: Fuzz, victim: RawClient) -> list:
    """Checks that the victim is served, and creates deleted topics again; returns the topic ids."""
    assert victim.produce("victim", batch_of(b"v")).error_code == 0
    assert victim.fetch("victim", 0).error_code == 0
    known = victim.call(MetadataRequest(topics=None, allow_auto_topic_creation=False)).topics
    missing = {"fuzz-0", "fuzz-1", "fuzz-compacted"} - {topic.name for topic in known}
    if missing and len(known) < 40:
        for name in missing:
            victim.create_topic(name, 2, **({"cleanup_policy": "compact"} if "compact" in name else {}))
    return [topic.topic_id for topic in known if topic.name in TOPICS]


@pytest.fixture
def complaints():
    """Collects the broker's errors.

    Warnings are disabled: a handler that keeps records would also keep their frames.
    """
    log, handler = logging.getLogger("odradek"), Complaints()
    log.addHandler(handler)
    logging.disable(logging.WARNING)
    gc.collect()
    gc.freeze()  # collecting all objects that the tests have imported takes 0.1 s, which would be a long turn
    yield handler
    logging.disable(logging.NOTSET)
    log.removeHandler(handler)
    gc.unfreeze()


def test_no_frame_waits_for_long():
    """The fuzz waits for each answer; a mutated fetch of an empty partition could wait for days."""
    grammar = Grammar(Random(1), list)
    low, high = ADVERTISED[ApiKey.FETCH]
    frames = [grammar.frame(ApiKey.FETCH, version) for _ in range(300) for version in range(low, high + 1)]
    assert not any(waits_long(frame) for frame in frames)


@pytest.mark.torture
@pytest.mark.timeout(3000)
def test_no_frame_does_harm(complaints):
    seed = int(os.environ.get("ODRADEK_FUZZ_SEED", secrets.randbelow(2**32)))
    print(f"ODRADEK_FUZZ_SEED={seed}")
    ids = []
    grammar = Grammar(Random(seed), lambda: ids)
    with ThreadBroker(env=lambda: ProductionEnvironment(threads=4), **SETTINGS) as broker:
        run(Fuzz(broker, complaints), grammar, ids)
        loop = broker.broker.services.loop
        assert loop.long_turns == 0, f"longest {loop.longest_ms} ms, last seen in:\n{loop.last_stack}"
    assert complaints.found == []


def run(fuzz: Fuzz, grammar: Grammar, ids: list) -> None:
    """Sends all frames while a victim is served, in bounded memory."""
    with RawClient(fuzz.broker.address) as victim:
        victim.create_topic("victim")
        sent, before = 0, memory_bytes()
        while sent < FRAMES:
            for key, version in grammar.turn():
                if sent % VICTIM_EVERY == 0:
                    ids[:] = look_after(fuzz, victim)
                fuzz.send(grammar.frame(key, version))
                sent += 1
        fuzz.close()
        print(sent, fuzz.outcomes, memory_bytes() - before)
        assert victim.call(ApiVersionsRequest(client_software_name="v", client_software_version="1")).error_code == 0
        assert fuzz.outcomes["answered"] > fuzz.outcomes["closed"]
        assert memory_bytes() - before < MAX_GROWTH_BYTES
