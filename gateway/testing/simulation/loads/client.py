"""A small Kafka client for simulations: one connection at a time, requests pipelined, time-outs in virtual time."""

from collections import deque
from collections.abc import Mapping
from typing import Protocol

import trio

from odradek.gateway.net.transport import Transport
from odradek.gateway.testing.simulation.environment import SimEnvironment, World
from odradek.wire.api_keys import ApiKey
from odradek.wire.frames import FrameReader
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.schema.schema import Message

VERSIONS = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 8,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.CREATE_TOPICS: 7,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.METADATA: 12,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 4,
    ApiKey.END_TXN: 4,
    ApiKey.UPDATE_FEATURES: 1,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
}
"""The default versions of requests."""
MAX_RESPONSE_BYTES = 100_000_000


class UnreachableError(Exception):
    """No answer: connection refused, broken, or timed out. The request may or may not have taken effect."""


class Client(Protocol):
    """Sends requests to brokers from the host `host`."""

    host: str
    env: SimEnvironment

    @property
    def sent_bytes(self) -> int:
        """The number of bytes sent over the present connections."""
        ...

    async def call(self, request: Message, timeout_s: float = 5.0) -> Message:
        """Send a request and wait for the answer. Raises UnreachableError."""
        ...

    async def call_all(self, requests: list[Message], timeout_s: float = 5.0) -> list[Message | None]:
        """Send all requests at once, then wait for the answers; None for a request without an answer."""
        ...

    def learn_leader_epoch(self, topic: str, partition: int, leader_epoch: int) -> None:
        """A committed offset has this leader epoch: do not read from leaders of earlier ones."""
        ...

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        ...


class Brokers(Protocol):
    """The servers of a load's clients: one broker, or a cluster."""

    replication_factor: int
    """The replication factor of topics that the load creates."""
    is_one: bool
    """True if one broker answers all requests, so that its next answer must show every acknowledged change."""

    def client(self, host: str, versions: Mapping[ApiKey, int] | None = None) -> Client:
        """A client on `host` that uses `versions`, and `VERSIONS` for APIs that are not in `versions`."""
        ...


class OneBroker:
    """A broker at `address`, to which all clients connect."""

    replication_factor = 1
    is_one = True

    def __init__(self, world: World, address: tuple[str, int]) -> None:
        self._world = world
        self._address = address

    def client(self, host: str, versions: Mapping[ApiKey, int] | None = None) -> "SimClient":
        """See `Brokers.client`."""
        return SimClient(self._world, host, self._address, versions)


class SimClient:
    """The client of one broker, on the host `host`."""

    def __init__(
        self, world: World, host: str, broker: tuple[str, int], versions: Mapping[ApiKey, int] | None = None
    ) -> None:
        self.host = host
        self._versions = {**VERSIONS, **(versions or {})}
        self.env = world.environment(host)
        self._broker = broker
        self._transport: Transport | None = None
        self._reader = FrameReader(MAX_RESPONSE_BYTES)
        self._frames: deque[memoryview] = deque()
        self._correlation = 0

    @property
    def sent_bytes(self) -> int:
        """The number of bytes sent over the present connection."""
        return 0 if self._transport is None else self._transport.sent_bytes

    async def call(self, request: Message, timeout_s: float = 5.0) -> Message:
        """Send a request and wait for the answer. Raises UnreachableError."""
        [response] = await self.call_all([request], timeout_s)
        if response is None:
            raise UnreachableError(type(request).__name__)
        return response

    async def call_all(self, requests: list[Message], timeout_s: float = 5.0) -> list[Message | None]:
        """Send all requests at once, then wait for the answers; None for a request without an answer."""
        answers: list[Message | None] = []
        try:
            with trio.fail_after(timeout_s):
                transport = await self._connected()
                for request in requests:
                    await transport.send_parts([self._encode(request)])
                for index, request in enumerate(requests):
                    expected = self._correlation - len(requests) + index + 1
                    answers.append(await self._answer(transport, request, expected))
        except (OSError, trio.TooSlowError):
            self.close()
        return answers + [None] * (len(requests) - len(answers))

    async def _connected(self) -> Transport:
        if self._transport is None:
            self._transport = await self.env.dial(*self._broker)
            self._reader, self._frames = FrameReader(MAX_RESPONSE_BYTES), deque()
        return self._transport

    def _encode(self, request: Message) -> bytes:
        self._correlation += 1
        return encode_request(request, self._versions[_key(request)], self._correlation, self.host)

    async def _answer(self, transport: Transport, request: Message, expected: int) -> Message:
        while not self._frames:
            received = await transport.receive_into(self._reader.get_buffer())
            if received == 0:
                raise ConnectionAbortedError("the broker closed the connection")
            self._frames.extend(self._reader.received(received))
        key = _key(request)
        correlation, response = decode_response(key, self._versions[key], self._frames.popleft())
        assert correlation == expected, "an answer came out of order"
        return response

    def learn_leader_epoch(self, topic: str, partition: int, leader_epoch: int) -> None:
        """See `Client.learn_leader_epoch`: one broker has no other leader."""

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None


def _key(request: Message) -> ApiKey:
    return ApiKey(request.__message__.api_key or 0)
