"""Requests from a grammar: valid, nearly valid or mutated ones for any served API and version, from a seed.

Values are chosen by a field's type and name: existing and missing entities of the broker under test, the smallest and
largest numbers, null, empty, long, repeated. Values that the encoder refuses (strings beyond Kafka's limit) are put
into the bytes afterwards. No value makes an answer wait for long, so that a driver may wait for each.
"""

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any
from uuid import UUID

from request_frames import decode_request_header

from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.consumer_metadata import encode_assignment, encode_subscription
from odradek.wire.errors import ProtocolError
from odradek.wire.headers import encode_request
from odradek.wire.messages import request_class
from odradek.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.wire.messages.fetch import FetchRequest
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.schema.codec import decode
from odradek.wire.schema.schema import FieldSpec
from odradek.wire.schema.types import WireType
from tests.wire.wire_catalogue import golden_frames

CORRELATION = 7
TOPICS = ("fuzz-0", "fuzz-1", "fuzz-compacted", "__consumer_offsets", "__transaction_state")
GROUPS = ("group-0", "group-1", "group-2")
PLACEHOLDER = "Z" * 100
"""A string that may be replaced by one beyond Kafka's limit."""

INTEGERS = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "int64": 63}
HOSTILE = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff",
    b"\xff",
    b"\0",
)
NAMES = (
    *(*TOPICS, *GROUPS, "", "nowhere", "tx-0", "tx-1", "member-0", "consumer", "range", "uniform", "1", "0", "-1"),
    *("cleanup.policy", "retention.ms", "segment.bytes", "compact", "max.message.bytes", "consumer.session.timeout.ms"),
    *("user", "client-id", "ip", "producer_byte_rate", "metadata.version", "transaction.version", "group.version"),
    *("fuzz.*", "(a|b", ".", "..", "ü" * 80, "a/b", "x\0y", "SCRAM-SHA-256", "Stable", "PLAIN", PLACEHOLDER),
)
SHORT_WAITS = (-(2**31), -1, 0, 1, 2)
"""Values of fields that limit how long an answer may wait, in milliseconds."""

LONGEST_FETCH_MS = 1000
"""The longest wait of a fetch; mutated frames with a longer one are not sent."""

LONG_WAITS = (0, 6000, 10_000, 2**31 - 1)
"""Values of the time-outs of sessions, rebalances and transactions, which no test waits for."""


class Grammar:
    """Makes frames from `chance`. `ids` returns the existing topic ids, and is called for each value."""

    def __init__(self, chance: Random, ids: Callable[[], Sequence[UUID]]) -> None:
        self.chance = chance
        self._ids = ids
        self._served = [
            (key, version)
            for key, (low, high) in ADVERTISED.items()
            for version in range(low, high + 1)
            if version in request_class(key).__message__.versions  # Produce 0 to 2 are advertised and never served
        ]
        self._golden = [frame.content for frame in golden_frames() if frame.is_request and _is_served(frame.content)]

    def turn(self) -> list[tuple[ApiKey, int]]:
        """Every served API and version once, shuffled."""
        return self.chance.sample(self._served, len(self._served))

    def frame(self, key: ApiKey, version: int) -> bytes:
        """A request of this API and version, without the length prefix; a few are a real client's, mutated."""
        chance = self.chance
        if chance.random() < 0.1:
            return self._mutated(chance.choice(self._golden))
        content = self._encoded(key, version)
        if chance.random() < 0.1:
            content = self._overlong(content)
        return self._mutated(content) if chance.random() < 0.25 else content

    def _encoded(self, key: ApiKey, version: int) -> bytes:
        while True:
            request = self._struct(request_class(key), version, version in request_class(key).__message__.flexible)
            client_id = self.chance.choice((None, "", "fuzz", "fuzz", "__admin_client", "c" * 32_000))
            try:
                return encode_request(request, version, CORRELATION, client_id, self._unknown_tags())[4:]
            except ProtocolError:
                continue  # such as two tagged fields with the same number

    def _struct(self, cls: type[Any], version: int, flexible: bool) -> Any:
        given = {spec.name: self._field(spec, version, flexible) for spec in cls.__fields__ if version in spec.versions}
        if flexible and self.chance.random() < 0.03:
            given["unknown_tagged_fields"] = self._unknown_tags()
        return cls(**given)

    def _field(self, spec: FieldSpec, version: int, flexible: bool) -> object:
        if version in spec.nullable and self.chance.random() < 0.15:
            return None
        return self._value(spec.type, spec.name, version, flexible)

    def _value(self, kind: WireType[Any], name: str, version: int, flexible: bool) -> object:
        if kind.element is not None:
            return self._array(kind.element, name, version, flexible)
        if kind.struct is not None:
            return self._struct(kind.struct, version, flexible)
        return self._scalar(kind.name, name)

    def _array(self, element: WireType[Any], name: str, version: int, flexible: bool) -> tuple[object, ...]:
        count = self.chance.choices((0, 1, 2, 3, 40), (2, 8, 3, 1, 0.1))[0]
        values = [self._value(element, name, version, flexible) for _ in range(count)]
        if values and self.chance.random() < 0.1:
            values.append(values[0])
        return tuple(values)

    def _scalar(self, kind: str, name: str) -> object:
        chance = self.chance
        match kind:
            case "bool":
                return chance.random() < 0.5
            case "float64":
                return chance.choice((0.0, -0.0, 1.5, -1.0, 1e308, 5e-324, float("nan"), float("inf"), -float("inf")))
            case "uuid":
                return chance.choice((*self._ids(), UUID(int=0), UUID(int=chance.getrandbits(128))))
            case "string":
                return self._text()
            case "bytes":
                return self._blob()
            case "records":
                return memoryview(self._records())
            case _:
                return self._number(name, INTEGERS[kind], signed=kind != "uint16")

    def _number(self, name: str, bits: int, *, signed: bool) -> int:
        """A number of `bits` bits besides the sign; fields with certain names get no large values."""
        least, most = -(2**bits) if signed else 0, 2**bits - 1
        if name in ("max_wait_ms", "timeout_ms"):
            return self.chance.choice(SHORT_WAITS)
        if name.endswith(("timeout_ms", "lifetime_ms")):
            return self.chance.choice((*LONG_WAITS, least))
        likely = (0, 1, -1, 2, 5, 100)
        edges = (least, least + 1, most, most - 1, 10**12, 2**31, 2**31 - 1, -2, -(2**31))
        number = self.chance.choice(likely if self.chance.random() < 0.75 else edges)
        return number if least <= number <= most else max(0, least)

    def _text(self) -> str:
        if self.chance.random() < 0.01:
            return self.chance.choice(("x" * 250, "x" * 32_767, "ü" * 16_000))
        return self.chance.choice(NAMES)

    def _blob(self) -> bytes:
        subscription = ConsumerProtocolSubscription(topics=tuple(self.chance.sample(TOPICS, 2)))
        return self.chance.choice(
            (
                b"",
                b"\0",
                self.chance.randbytes(30),
                encode_subscription(subscription, self.chance.randrange(4)),
                encode_assignment(ConsumerProtocolAssignment(user_data=b"u"), 0),
            )
        )

    def _records(self) -> bytes:
        chance = self.chance
        values = [SimpleRecord(chance.choice((None, b"k")), b"v" * chance.choice((0, 9, 900)), 10**12)] * 2
        producer = {} if chance.random() < 0.6 else {"producer_id": chance.choice((0, 1, 4000)), "producer_epoch": 0}
        batch = bytearray(build_batch(values, **producer, base_sequence=0 if producer else -1))
        if chance.random() < 0.3:
            batch[chance.randrange(len(batch))] = chance.randrange(256)
        return chance.choice((bytes(batch),) * 8 + (b"", bytes(batch) * 2, bytes(batch[:40])))

    def _unknown_tags(self) -> tuple[tuple[int, bytes], ...]:
        if self.chance.random() < 0.97:
            return ()
        tags = self.chance.sample((0, 1, 2, 3, 77, 2**31 - 1), 2)
        return tuple((tag, self.chance.randbytes(self.chance.randrange(5))) for tag in sorted(tags))

    # Values that the encoder refuses

    def _overlong(self, content: bytes) -> bytes:
        """The frame with the placeholder replaced, if present; compact strings have no limit."""
        old = PLACEHOLDER.encode()
        text = self.chance.choice((b"\xff" * 100, b"\xff" * 20_000, b"y" * 32_768, b"y" * 70_000, b"\xc3" * 11_000))
        if bytes([len(old) + 1]) + old in content:
            return content.replace(bytes([len(old) + 1]) + old, _uvarint(len(text) + 1) + text)
        text = text[:32_767]
        return content.replace(struct.pack(">h", len(old)) + old, struct.pack(">h", len(text)) + text)

    def _mutated(self, frame: bytes) -> bytes:
        while True:
            content = self._altered(frame)
            if not waits_long(content):
                return content

    def _altered(self, frame: bytes) -> bytes:
        chance, content = self.chance, bytearray(frame)
        for _ in range(chance.randrange(1, 4)):
            position = chance.randrange(8, len(content) + 1)  # the bytes before are API key, version and correlation id
            evil = chance.choice(HOSTILE)
            match chance.randrange(6):
                case 0:
                    del content[position:]
                case 1:
                    content[position : position + len(evil)] = evil
                case 2:
                    content[position:position] = evil
                case 3:
                    content[position : position + 8] = struct.pack(">q", chance.choice((2**63 - 1, -(2**63), 2**62)))
                case 4:
                    content += content[position:]
                case _:
                    content[position - 1] = chance.randrange(256)
        return bytes(content)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def waits_long(frame: bytes) -> bool:
    """True for a fetch that may wait longer for records than any client's frame does."""
    try:
        header, body_at = decode_request_header(frame)
        if header.api_key is not ApiKey.FETCH:
            return False
        request, _ = decode(FetchRequest, header.api_version, frame, body_at)
    except ProtocolError:
        return False
    return request.max_wait_ms > LONGEST_FETCH_MS


def _is_served(frame: bytes) -> bool:
    header, _ = decode_request_header(frame)
    low, high = ADVERTISED.get(header.api_key, (1, 0))
    return low <= header.api_version <= high
