"""Raw frames of the classic group protocol: describe groups, or be a member that records every error it gets."""

from __future__ import annotations

import struct
import threading
import time
from collections import Counter
from typing import Any

from compat_tests import frames
from compat_tests.error_names import error_name
from compat_tests.frames import Body, RawConnection, Reader
from compat_tests.processes import wait_for

DESCRIBE_GROUPS = 15


def find_coordinator(connection: RawConnection, group: str) -> str:
    """FindCoordinator 0, repeated until the coordinator has loaded; the offsets topic may not exist yet."""
    wait_for(lambda: "COORDINATOR" not in _coordinator_error(connection, group), f"the coordinator of {group!r}")
    return _coordinator_error(connection, group)


def _coordinator_error(connection: RawConnection, group: str) -> str:
    found = error_name(connection.call(frames.FIND_COORDINATOR, 0, Body().string(group)).one("h"))
    if found != "NONE" or not group:
        return found
    reader = connection.call(frames.HEARTBEAT, 1, Body().string(group).put("i", 1).string("nobody"))
    reader.one("i")
    answer = error_name(reader.one("h"))
    if answer == "NONE":  # the answer to an unknown member while the group's shard loads
        return "COORDINATOR_LOAD_IN_PROGRESS"
    return answer if "COORDINATOR" in answer else "NONE"


def describe_group(bootstrap: str, group: str) -> dict[str, Any]:
    """DescribeGroups 0 by the group's coordinator: state, protocol and the number of partitions of each member."""
    found: dict[str, Any] = {}
    for broker in bootstrap.split(","):
        found = _described_by(broker, group)
        if found["error"] == "NONE":
            break
    return found


def _described_by(broker: str, group: str) -> dict[str, Any]:
    with RawConnection(broker) as connection:
        reader = connection.call(DESCRIBE_GROUPS, 0, Body().put("i", 1).string(group))
    reader.one("i")
    error, _, state = error_name(reader.one("h")), reader.string(), reader.string()
    kind, protocol = reader.string(), reader.string()
    members = reader.array(_member)
    return {"error": error, "state": state, "type": kind, "protocol": protocol, "held": sorted(members)}


def _member(reader: Reader) -> int:
    for _ in range(3):
        reader.string()
    reader.blob()
    return held_partitions(reader.blob() or b"")


def held_partitions(assignment: bytes) -> int:
    """The number of partitions in a consumer's assignment."""
    if not assignment:
        return 0
    reader = Reader(assignment)
    reader.one("h")
    return sum(len(ps) for _, ps in reader.array(lambda r: (r.string(), r.array(lambda q: q.one("i")))))


def await_group(bootstrap: str, group: str, held: list[int], timeout_s: float = 60.0) -> dict[str, Any]:
    """Returns once the group is stable with these numbers of partitions per member."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = describe_group(bootstrap, group)
        if found["state"] == "Stable" and found["held"] == held:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{group} is {found}, wanted {held}")
        threading.Event().wait(0.1)


class RawMember(threading.Thread):
    """A member that joins, syncs and sends heartbeats, joins again when required, and counts every error code."""

    def __init__(self, bootstrap: str, group: str, *, session_ms: int = 6000) -> None:
        super().__init__(daemon=True)
        self._address, self._group, self._session_ms = bootstrap, group, session_ms
        self._leave = threading.Event()
        self.member_id, self.generation = "", -1
        self.errors: Counter[str] = Counter()
        self.stable_at = -1
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with RawConnection(self._address, timeout_s=30) as self._connection:
                self._note("find", find_coordinator(self._connection, self._group))
                while not self._leave.is_set():
                    if self._join() and self._sync():
                        self._heartbeat_until_told()
                self._note(
                    "leave", self._simple(frames.LEAVE_GROUP, Body().string(self._group).string(self.member_id), 1)
                )
        except BaseException as error:  # noqa: BLE001 - the case that waits for this thread raises it
            self.failure = error

    def leave(self) -> None:
        """Leaves at the next step."""
        self._leave.set()

    def _note(self, step: str, error: str) -> bool:
        if error != "NONE":
            self.errors[f"{step}: {error}"] += 1
        return error == "NONE"

    def _join(self) -> bool:
        body = Body().string(self._group).put("ii", self._session_ms, 10_000).string(self.member_id)
        body.string("consumer").put("i", 1).string("range").blob(b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
        reader = self._connection.call(frames.JOIN_GROUP, 4, body)
        reader.one("i")
        error = error_name(reader.one("h"))
        generation, _, leader, member_id = reader.one("i"), reader.string(), reader.string(), reader.string() or ""
        if error in {"NONE", "MEMBER_ID_REQUIRED"}:
            self.member_id, self.generation = member_id, generation
        self._members = [m for m, _ in reader.array(lambda r: (r.string(), r.blob()))] if error == "NONE" else []
        self._leads = leader == self.member_id
        return self._note("join", error)

    def _sync(self) -> bool:
        body = Body().string(self._group).put("i", self.generation).string(self.member_id)
        body.put("i", len(self._members) if self._leads else 0)
        for index, member in enumerate(self._members if self._leads else []):
            body.string(member).blob(struct.pack(">i", index))
        reader = self._connection.call(frames.SYNC_GROUP, 1, body)
        reader.one("i")
        error = error_name(reader.one("h"))
        if error == "NONE":
            self.stable_at = self.generation
        return self._note("sync", error)

    def _heartbeat_until_told(self) -> None:
        body = Body().string(self._group).put("i", self.generation).string(self.member_id)
        while not self._leave.wait(0.05):
            if not self._note("heartbeat", self._simple(frames.HEARTBEAT, body, 1)):
                return

    def _simple(self, key: int, body: Body, version: int) -> str:
        reader = self._connection.call(key, version, body)
        reader.one("i")
        return error_name(reader.one("h"))
