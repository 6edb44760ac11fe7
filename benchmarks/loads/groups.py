"""Members of classic groups on plain sockets, one connection each, like consumers: idle groups, and a large join."""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.stats import percentile
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.headers import decode_response, encode_request
from odradek.wire.messages.describe_groups import DescribeGroupsRequest
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.schema.schema import Message

VERSIONS = {
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 4,
    ApiKey.DESCRIBE_GROUPS: 4,
}
"""JoinGroup 3 is the last version in which a new member does not have to send its id in a second request."""
SESSION_MS = 60_000
METADATA = bytes(96)
"""As many bytes as the subscription of a consumer with a few topics."""
WAIT_LIMIT_S = 60
HEARTBEAT_BYTES = 4 + 4 + 1 + 4 + 2 + 1
"""An answer: length, correlation id and empty tag section; throttle time, error code, and empty tag section."""
LATE_S = 0.1
AGAIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Member:
    """One member that follows the protocol: join, sync, then heartbeats; it joins again when an error requires it.

    `ready` is True when it has its assignment. Raises SystemExit for any other error.
    """

    def __init__(self, bootstrap: str, group: str) -> None:
        host, port = bootstrap.split(":")
        self.group = group
        self.socket = socket.create_connection((host, int(port)), timeout=WAIT_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.member_id, self.generation, self.ready, self.awaiting = "", -1, False, False
        self.heartbeat = b""
        self._steps: dict[ApiKey, Callable[[Any], None]] = {
            ApiKey.JOIN_GROUP: self._joined,
            ApiKey.SYNC_GROUP: self._synced,
            ApiKey.HEARTBEAT: self._acknowledged,
        }
        self._sent = ApiKey.HEARTBEAT

    def _send(self, key: ApiKey, request: Message) -> None:
        self._sent, self.awaiting = key, True
        self.socket.sendall(encode_request(request, VERSIONS[key], 1, "bench"))

    def _receive(self) -> Any:  # noqa: ANN401 - the response to any request
        self.awaiting = False
        frame = self._exactly(int.from_bytes(self._exactly(4), "big"))
        return decode_response(self._sent, VERSIONS[self._sent], frame)[1]

    def _exactly(self, size: int) -> bytes:
        data = self.socket.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            raise SystemExit("the broker closed the connection")
        return data

    def find_coordinator(self) -> None:
        """Wait until the group has a coordinator: its topic may have to be created, and its shard loaded, first."""
        deadline = time.perf_counter() + WAIT_LIMIT_S
        while time.perf_counter() < deadline:
            self._send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key=self.group))
            if not self._receive().error_code:
                self._send(ApiKey.HEARTBEAT, HeartbeatRequest(group_id=self.group, member_id="nobody"))
                if self._receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    return
            time.sleep(0.05)
        raise SystemExit("no coordinator")

    def join(self) -> None:
        """Send JoinGroup."""
        self.ready = False
        protocols = (JoinGroupRequestProtocol(name="range", metadata=METADATA),)
        times = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": SESSION_MS}
        member = {"group_id": self.group, "member_id": self.member_id, "protocol_type": "consumer"}
        self._send(ApiKey.JOIN_GROUP, JoinGroupRequest(**member, **times, protocols=protocols))

    def beat(self) -> None:
        """Send a heartbeat."""
        self._sent, self.awaiting = ApiKey.HEARTBEAT, True
        self.socket.sendall(self.heartbeat)

    def count_members(self) -> int:
        """The number of members that the broker has in the group."""
        self._send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=(self.group,)))
        return len(self._receive().groups[0].members)

    def proceed(self) -> None:
        """Read the answer that has arrived, and take the next step of the protocol."""
        answer = self._receive()
        if answer.error_code in AGAIN:
            self.join()
        elif answer.error_code:
            raise SystemExit(f"{self._sent.name} was answered with error {answer.error_code}")
        else:
            self._steps[self._sent](answer)

    def _joined(self, answer: Any) -> None:  # noqa: ANN401
        self.member_id, self.generation = answer.member_id, answer.generation_id
        member = {"group_id": self.group, "member_id": self.member_id, "generation_id": self.generation}
        self.heartbeat = encode_request(HeartbeatRequest(**member), VERSIONS[ApiKey.HEARTBEAT], 1, "bench")
        given = [SyncGroupRequestAssignment(member_id=m.member_id, assignment=METADATA) for m in answer.members]
        self._send(ApiKey.SYNC_GROUP, SyncGroupRequest(**member, assignments=tuple(given)))

    def _synced(self, answer: Any) -> None:  # noqa: ANN401
        self.ready = True

    def _acknowledged(self, answer: Any) -> None:  # noqa: ANN401
        pass


def settle(members: Sequence[Member], beat_every_s: float) -> None:
    """Run the members until each has its assignment in its group's newest generation."""
    deadline = time.perf_counter() + WAIT_LIMIT_S
    beat_at = time.perf_counter() + beat_every_s
    with selectors.EpollSelector() as selector:
        for member in members:
            selector.register(member.socket, selectors.EVENT_READ, member)
        while any(member.awaiting for member in members) or not _in_one_generation(members):
            now = time.perf_counter()
            if now > deadline:
                raise SystemExit(f"the groups were not stable within {WAIT_LIMIT_S} s")
            if now >= beat_at:
                beat_at = now + beat_every_s
                for member in members:
                    if not member.awaiting:
                        member.beat()
            for key, _ in selector.select(min(beat_every_s, 1)):
                key.data.proceed()


def _in_one_generation(members: Sequence[Member]) -> bool:
    newest: dict[str, int] = {}
    for member in members:
        newest[member.group] = max(newest.get(member.group, -1), member.generation)
    return all(member.ready and member.generation == newest[member.group] for member in members)


def idle(
    bootstrap: str, prefix: str, groups: int, members: int, interval_s: float, duration_s: float
) -> dict[str, float]:
    """Stable groups whose members send heartbeats at a steady rate.

    Prints `ready` before the measurement and `done` after it, and waits for a line after each, so that joining and
    leaving are not measured. `late` is the share of heartbeats that were sent late: the figures of a load that cannot
    keep up are not valid.
    """
    everyone = [Member(bootstrap, f"{prefix}-{number}") for number in range(groups) for _ in range(members)]
    everyone[0].find_coordinator()
    for member in everyone:
        member.join()
    settle(everyone, beat_every_s=2)
    beat(everyone, interval_s, interval_s)
    _report("ready")
    took, late = beat(everyone, interval_s, duration_s)
    _report("done")
    took.sort()
    return {
        "heartbeats": len(took),
        "late": late / len(took),
        "p50": percentile(took, 0.5) * 1000,
        "p99": percentile(took, 0.99) * 1000,
    }


def _report(line: str) -> None:
    print(line, flush=True)
    sys.stdin.readline()


def beat(members: Sequence[Member], interval_s: float, duration_s: float) -> tuple[list[float], int]:
    """Send heartbeats spread evenly over each interval; returns their latencies in s, and the number sent late."""
    took: list[float] = []
    late, number, due = 0, 0, int(len(members) * duration_s / interval_s)
    sent_at: dict[int, float] = {}
    started = time.perf_counter()
    with selectors.EpollSelector() as selector:
        for member in members:
            selector.register(member.socket, selectors.EVENT_READ)
        while len(took) < due:
            now = time.perf_counter()
            while number < due and (planned := started + number * interval_s / len(members)) <= now:
                member = members[number % len(members)]
                member.socket.sendall(member.heartbeat)
                sent_at[member.socket.fileno()] = now
                late += now - planned > LATE_S
                number += 1
            pause = started + number * interval_s / len(members) - time.perf_counter() if number < due else WAIT_LIMIT_S
            for key, _ in selector.select(max(pause, 0)):
                answers = count_answers(key.fileobj.recv(4096))
                took += [time.perf_counter() - sent_at[key.fd]] * answers
    return took, late


def count_answers(data: bytes) -> int:
    """The number of answers in `data`: more than one if the broker has fallen behind."""
    answers, rest = divmod(len(data), HEARTBEAT_BYTES)
    if rest or not answers:
        raise SystemExit(f"{len(data)} bytes are no answers to heartbeats")
    for number in range(answers):
        error = int.from_bytes(data[number * HEARTBEAT_BYTES + 13 :][:2], "big")
        if error:
            raise SystemExit(f"Heartbeat was answered with error {error}")
    return answers


def join(bootstrap: str, prefix: str, members: int, rounds: int) -> dict[str, float]:
    """Milliseconds until all members have their assignments, when all but one join at once; the median of the rounds.

    The group already has one member, so that the initial rebalance delay is not included. That member joins again as
    soon as the broker has all others, so that there is one rebalance, and no heartbeat interval is included.
    """
    took = sorted(_join_once(bootstrap, f"{prefix}-{number}", members) for number in range(rounds))
    return {"ms": percentile(took, 0.5) * 1000}


def _join_once(bootstrap: str, group: str, members: int) -> float:
    first, observer = Member(bootstrap, group), Member(bootstrap, group)
    first.find_coordinator()
    first.join()
    settle([first], beat_every_s=1)
    others = [Member(bootstrap, group) for _ in range(members - 1)]
    started = time.perf_counter()
    for member in others:
        member.join()
    while observer.count_members() < members:
        time.sleep(0.002)
    first.join()
    settle([first, *others], beat_every_s=WAIT_LIMIT_S)
    seconds = time.perf_counter() - started
    if {member.generation for member in others} != {first.generation}:
        raise SystemExit("it took more than one rebalance")
    for member in (first, observer, *others):
        member.socket.close()
    return seconds


def main(kind: str, arguments: dict[str, Any]) -> None:
    """Run one load and print its figures."""
    print(json.dumps({"idle": idle, "join": join}[kind](**arguments)))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
