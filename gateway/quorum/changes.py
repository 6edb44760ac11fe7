"""Changes of the voters by request: the state machine decides, the response waits for the commit (KIP-853)."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from odradek.coordinator.quorum.changes import Change, add_voter, raise_version, remove_voter, shown, update_voter
from odradek.coordinator.quorum.voters import KRAFT_VERSION, ReplicaKey, Voter
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.peers import PeerCallError
from odradek.gateway.quorum.driver import QuorumDriver
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.wire.values import immutable

log = logging.getLogger(__name__)

API_VERSIONS_VERSION: Final = 4
ASKS: Final = ApiVersionsRequest(client_software_name="odradek", client_software_version="0")


@immutable
class _Appended:
    """The offset and epoch of a change's record; `offset` is -1 if nothing was appended."""

    change: Change
    offset: int = -1
    epoch: int = -1


class VoterChanges:
    """Changes of one quorum. Only its leader makes them; any other node answers NOT_LEADER_OR_FOLLOWER.

    A change that waits for its commit returns REQUEST_TIMED_OUT after `controller.quorum.request.timeout.ms`, and
    NOT_LEADER_OR_FOLLOWER if this node stops leading before; it may still be committed. Cancelling the caller does not
    undo it. `update`, and `add` without `waits`, return when the record is appended.
    """

    def __init__(self, quorum: QuorumDriver) -> None:
        self._quorum = quorum

    async def add(self, key: ReplicaKey, endpoint_by_listener: dict[str, tuple[str, int]], *, waits: bool) -> Change:
        """Add a voter if its ApiVersions response has the `kraft.version` in force; `waits` for the commit."""
        core, voter = self._quorum.core, Voter(key, endpoint_by_listener)
        refused = await self._quorum.ask(partial(add_voter, core, voter))
        if refused.voters is None:
            return refused
        levels = await self._levels_of(voter)
        if levels is None:
            message = f"Aborted add voter operation for {shown(key)} since it does not answer API_VERSIONS"
            return Change(ErrorCode.REQUEST_TIMED_OUT, message)
        voter = Voter(key, endpoint_by_listener, levels)
        return await self._make(partial(add_voter, core, voter), waits=waits)

    async def remove(self, key: ReplicaKey) -> Change:
        """Remove a voter; a leader that removes itself then resigns."""
        return await self._make(lambda _now_ms: remove_voter(self._quorum.core, key), waits=True)

    async def update(self, voter: Voter) -> Change:
        """Append a voter's new endpoints and versions; returns without waiting for the commit."""
        return await self._make(lambda _now_ms: update_voter(self._quorum.core, voter), waits=False)

    async def raise_version(self, *, only_checked: bool) -> Change:
        """Append the configured voters to the log: `kraft.version` is then 1. `only_checked` appends nothing."""
        quorum = self._quorum

        def decide(_now_ms: int) -> Change:
            return raise_version(quorum.core, quorum.known_endpoints.of_voters)

        return await (quorum.ask(decide) if only_checked else self._make(decide, waits=True))

    async def _levels_of(self, voter: Voter) -> tuple[int, int] | None:
        quorum = self._quorum
        endpoint = voter.endpoints.get(quorum.settings.listener)
        if endpoint is None:
            return None
        try:
            answer = await quorum.call(voter.key.id, endpoint, ASKS, API_VERSIONS_VERSION)
        except PeerCallError as error:
            log.info("a new voter does not answer node=%d cause=%s", voter.key.id, error)
            return None
        assert isinstance(answer, ApiVersionsResponse)
        found = [
            (each.min_version, each.max_version) for each in answer.supported_features if each.name == KRAFT_VERSION
        ]
        return None if answer.error_code else (found or [(0, 0)])[0]

    async def _make(self, decide: Callable[[int], Change], *, waits: bool) -> Change:
        appended = await self._quorum.ask(partial(self._append, decide))
        if appended.offset < 0 or not waits:
            return appended.change
        return await self._committed(appended)

    def _append(self, decide: Callable[[int], Change], now_ms: int) -> _Appended:
        quorum = self._quorum
        change = decide(now_ms)
        if change.voters is None:
            return _Appended(change)
        try:
            offset = quorum.replica.append_voters(change.voters)
        except PartitionUnavailable:
            return _Appended(Change(ErrorCode.REQUEST_TIMED_OUT, "The metadata log takes no writes."))
        quorum.core.durable(now_ms)  # a voter set is in force as soon as it is appended
        return _Appended(change, offset, quorum.core.epoch)

    async def _committed(self, appended: _Appended) -> Change:
        quorum, signal = self._quorum, Signal()
        quorum.changes.watch(signal)
        until_ms = quorum.now_ms + quorum.settings.timing.request_ms
        try:
            while True:
                core = quorum.core
                if core.epoch == appended.epoch and core.high_watermark > appended.offset:
                    return appended.change
                if core.leadership is None or core.epoch != appended.epoch:
                    return Change(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                left_ms = until_ms - quorum.now_ms
                if left_ms <= 0:
                    return Change(ErrorCode.REQUEST_TIMED_OUT)
                await signal.wait(left_ms)
        finally:
            quorum.changes.unwatch(signal)
