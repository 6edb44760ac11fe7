"""The registration and the heartbeats of this broker; see the package's docstring."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import trio

from odradek.gateway.config import BrokerConfig
from odradek.gateway.env.environment import Environment
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.signals import Signal
from odradek.gateway.errors import StartError, received_error
from odradek.gateway.lifecycle.clean_end import NO_EPOCH, CleanEnd
from odradek.gateway.lifecycle.incarnation import Incarnation
from odradek.gateway.metadata.channel import ControllerChannel, ControllerUnreachableError
from odradek.gateway.metadata.publisher import MetadataPublisher
from odradek.storage_backends.interface import StoreError
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

log = logging.getLogger(__name__)

REGISTRATION_VERSION: Final = 4
HEARTBEAT_VERSION: Final = 1
SOON_MS: Final = 50
"""The interval of heartbeats while their responses matter at once: until the broker is unfenced, and when it stops."""

_UNKNOWN: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})
"""The controller does not have this registration."""
_FINAL: Final = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: "its controllers belong to another cluster (odradek.cluster.id)",
    ErrorCode.UNSUPPORTED_VERSION: "this version does not serve the features that are in force",
    ErrorCode.INVALID_REGISTRATION: "the controller refuses its listeners or directories",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the controller does not let it in",
}
"""Errors that a retry cannot resolve."""


def nothing_lost(_time_ms: int) -> Sequence[object]:
    """Returns no partitions, for a broker whose logs are not examined."""
    return ()


class BrokerLifecycle:
    """One incarnation of this broker. `listeners` are the advertised ones; `cluster_id()` is empty until it is known.

    `lost_for(time_ms)` returns the partitions that it leads and has not been able to write for `time_ms`. If there are
    any, it requests to be fenced, so that other brokers lead them, and ends. If the incarnation is already registered,
    the registration is repeated, and keeps its epoch and state. A broker that the controller dismisses although it does
    not stop registers as a new incarnation: any peer may send a heartbeat with its epoch.

    `unfenced` is set when the controller first responds that the broker is unfenced, `released` when it may stop.
    """

    def __init__(
        self,
        env: Environment,
        config: BrokerConfig,
        channel: ControllerChannel,
        metadata: MetadataPublisher,
        cluster_id: Callable[[], str],
        listeners: Mapping[str, tuple[str, int]],
        clean_end: CleanEnd,
        incarnation: Incarnation,
        repeats: Repeats,
        lost_for: Callable[[int], Sequence[object]] = nothing_lost,
    ) -> None:
        self.unfenced = trio.Event()
        self.released = trio.Event()
        self.epoch = NO_EPOCH
        self._env = env
        self._config = config
        self._channel = channel
        self._metadata = metadata
        self._cluster_id = cluster_id
        self._listeners = listeners
        self._clean_end = clean_end
        self._repeats = repeats
        self._lost_for = lost_for
        self._incarnation = incarnation
        self._is_dismissed = False
        self._is_fenced = True
        self._is_stopping = False
        self._changed = Signal()

    async def run(self) -> None:
        """Register, and send heartbeats until released or cancelled.

        Raises StartError when this broker cannot be in the cluster: another broker has its id, no controller answers
        for `initial.broker.registration.timeout.ms`, or the controller refuses it permanently. Raises StoreError when
        it cannot write partitions that other brokers could lead, or cannot read the store's properties.
        """
        self._metadata.changes.watch(self._changed)
        try:
            previous_epoch = await self._clean_end.take()
            await self._register(previous_epoch)
            while not self.released.is_set():
                lost = self._lost_for(self._number("broker.session.timeout.ms"))
                known = await self._heartbeat(want_fence=bool(lost))
                if lost:
                    raise StoreError(f"{len(lost)} partitions cannot be written, the first {lost[0]}; others lead them")
                if self._is_dismissed:
                    await self._register_anew()
                elif not known:
                    await self._register(NO_EPOCH)
                await self._pause()
        finally:
            self._metadata.changes.unwatch(self._changed)

    async def await_listed(self) -> None:
        """Return when it is unfenced, also in its own image, from which clients get the brokers. Needs `run`."""
        await self.unfenced.wait()
        changed = Signal()
        self._metadata.changes.watch(changed)
        try:
            while self._is_fenced_in_image():
                await changed.wait()
        finally:
            self._metadata.changes.unwatch(changed)

    async def shut_down(self, timeout_ms: int) -> None:
        """Let the controller move this broker's leaderships; return when that is done, or after `timeout_ms`.

        `run` must be running.
        """
        self._is_stopping = True
        self._changed.wake()
        with trio.move_on_after(timeout_ms / 1000) as scope:
            await self.released.wait()
        if scope.cancelled_caught:
            log.warning("stopping without a release of the controller node_id=%d", self._config.node_id)

    # Registration

    async def _register(self, previous_epoch: int) -> None:
        deadline_ms = self._env.monotonic_ms() + self._number("initial.broker.registration.timeout.ms")
        why = "no controller of its cluster answers (controller.quorum.voters, controller.quorum.bootstrap.servers)"
        while (left_ms := deadline_ms - self._env.monotonic_ms()) > 0:
            if not self._cluster_id():
                await self._changed.wait(min(left_ms, SOON_MS))
                continue
            answer = await self._ask_to_register(previous_epoch, left_ms)
            if answer is None:
                break
            error = received_error(answer.error_code)
            if error is ErrorCode.NONE:
                self.epoch = answer.broker_epoch
                log.info("registered node_id=%d epoch=%d", self._config.node_id, self.epoch)
                return
            if error in _FINAL:
                raise self._refused(_FINAL[error])
            why = self._why(error)
            await trio.sleep(min(left_ms, self._number("broker.heartbeat.interval.ms")) / 1000)
        raise self._refused(f"{why}, for initial.broker.registration.timeout.ms")

    async def _register_anew(self) -> None:
        """Register as a new incarnation. The epoch shows the controller that the logs are whole."""
        text = "the controller dismisses this broker, which does not stop: registering again node_id=%d epoch=%d"
        log.warning(text, self._config.node_id, self.epoch)
        self._incarnation.renew(self._env.uuid())
        self._is_dismissed = False
        await self._register(self.epoch)

    def _why(self, error: ErrorCode) -> str:
        if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return "another broker of this node.id is running"
        return f"the controller answers {error.name}"

    def _refused(self, why: str) -> StartError:
        return StartError(f"node.id {self._config.node_id} cannot register: {why}")

    async def _ask_to_register(self, previous_epoch: int, timeout_ms: int) -> BrokerRegistrationResponse | None:
        features = self._metadata.image.features.supported
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id(),
            incarnation_id=self._incarnation.id,
            listeners=tuple(
                [Listener(name=name, host=host, port=port) for name, (host, port) in self._listeners.items()]
            ),
            features=tuple(
                [
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in features.items()
                ]
            ),
            rack=self._config.rack,
            previous_broker_epoch=previous_epoch,
        )
        attempt_ms = self._number("broker.session.timeout.ms")
        try:
            answer = await self._channel.call(request, REGISTRATION_VERSION, timeout_ms, attempt_ms)
        except ControllerUnreachableError:
            return None
        assert isinstance(answer, BrokerRegistrationResponse)
        return answer

    # Heartbeats

    async def _heartbeat(self, *, want_fence: bool) -> bool:
        """Send one, and act on the response; False if the controller does not have this registration."""
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata.image.offset,
            want_fence=want_fence,
            want_shut_down=self._is_stopping,
        )
        stopping = self._is_stopping
        timeout_ms = self._election_ms() if stopping else self._number("broker.session.timeout.ms")
        attempt_ms = self._number("broker.heartbeat.interval.ms") if stopping else timeout_ms
        try:
            answer = await self._channel.call(request, HEARTBEAT_VERSION, timeout_ms, max(attempt_ms // 2, 1))
        except ControllerUnreachableError as error:
            text = "no controller takes heartbeats node_id=%d cause=%s"
            self._repeats.note(text, log, logging.WARNING, text, self._config.node_id, error)
            if stopping:  # not even after an election; most likely the whole cluster stops
                self.released.set()
            return True
        assert isinstance(answer, BrokerHeartbeatResponse)
        if answer.error_code:
            error = received_error(answer.error_code)
            text = "heartbeat refused node_id=%d error=%s"
            self._repeats.note((text, error), log, logging.WARNING, text, self._config.node_id, error.name)
            return error not in _UNKNOWN
        if answer.should_shut_down and self._is_stopping:
            self.released.set()
        self._is_dismissed = answer.should_shut_down and not self._is_stopping
        self._note_fenced(fenced=answer.is_fenced)
        return True

    def _election_ms(self) -> int:
        """The time within which another controller is active: the loss is noticed, and a second vote may be needed."""
        return self._number("controller.quorum.fetch.timeout.ms") + 2 * self._number(
            "controller.quorum.election.timeout.ms"
        )

    def _note_fenced(self, *, fenced: bool) -> None:
        if fenced != self._is_fenced:
            log.info("%s node_id=%d epoch=%d", "fenced" if fenced else "unfenced", self._config.node_id, self.epoch)
        self._is_fenced = fenced
        if not fenced:
            self.unfenced.set()

    def _is_fenced_in_image(self) -> bool:
        known = self._metadata.image.brokers.get(self._config.node_id)
        return known is None or known.fenced

    async def _pause(self) -> None:
        """Wait until the next heartbeat is due; earlier while the broker stops or is to be unfenced."""
        if self.released.is_set():
            return
        until_ms = self._env.monotonic_ms() + self._number("broker.heartbeat.interval.ms")
        while (left_ms := until_ms - self._env.monotonic_ms()) > 0:
            if self._is_stopping or (self._is_fenced and self._metadata.image.offset >= self.epoch):
                await trio.sleep(min(left_ms, SOON_MS) / 1000)
                return
            await self._changed.wait(left_ms)

    def _number(self, name: str) -> int:
        value = self._config.values[name]
        assert isinstance(value, int), name
        return value
