"""Sessions of brokers: the active controller's soft state, which is not in the metadata log.

Heartbeats are not in the log, so that it does not grow in an idle cluster. Therefore a controller that has just become
active has no record of when each broker last sent one. It starts a full session for each unfenced broker, but allows
another incarnation to register in its place at once: a broker keeps its id only if it has contacted *this* controller
(as in Kafka).

Times are milliseconds of the caller's clock, which is monotonic.
"""

from collections.abc import Mapping
from typing import Final

from odradek.coordinator.metadata.image.image import BrokerImage
from odradek.wire.values import mutable

NO_OFFSET: Final = -1


@mutable
class _Session:
    """The session of one broker epoch. Other brokers must reach `shutdown_offset` before the broker may stop."""

    epoch: int
    last_contact_ms: int
    was_contacted: bool
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int | None = None
    is_leaving: bool = False


class BrokerSessions:
    """The sessions of all brokers. A broker without one, which has never sent a heartbeat, never expires.

    Neither does the broker `own_id`, if given, which is on the same node as the sole voter: whenever sessions are
    checked, it is running. It is fenced only at its own request.

    `elections_left` is True if leaderless partitions may get a leader, and not all of them have been checked.
    """

    def __init__(self, own_id: int | None = None) -> None:
        self.elections_left = False
        self._own_id = own_id
        self._sessions: dict[int, _Session] = {}

    def begin(self, brokers: Mapping[int, BrokerImage], now_ms: int) -> None:
        """Reset everything, and start a session for each unfenced broker: this controller has just become active."""
        self.elections_left = True
        self._sessions = {
            broker.id: _Session(broker.epoch, now_ms, was_contacted=False)
            for broker in brokers.values()
            if not broker.fenced
        }

    def record_contact(self, broker_id: int, epoch: int, metadata_offset: int, now_ms: int) -> None:
        """A broker has registered or sent a heartbeat; it has metadata up to `metadata_offset`."""
        session = self._of(broker_id, epoch)
        if session is None:
            session = self._sessions[broker_id] = _Session(epoch, now_ms, was_contacted=True)
        session.last_contact_ms, session.was_contacted = now_ms, True
        session.metadata_offset = metadata_offset

    def forget(self, broker_id: int) -> None:
        """The broker is fenced, or its registration removed."""
        self._sessions.pop(broker_id, None)

    def is_held(self, broker: BrokerImage, timeout_ms: int, now_ms: int) -> bool:
        """True if the unfenced broker has contacted this controller within the last `timeout_ms`."""
        session = self._of(broker.id, broker.epoch)
        return (
            session is not None
            and not broker.fenced
            and session.was_contacted
            and now_ms <= session.last_contact_ms + timeout_ms
        )

    def leave(self, broker: BrokerImage) -> None:
        """Fence the broker as soon as its partitions have other leaders and ISRs."""
        session = self._of(broker.id, broker.epoch)
        if session is not None:
            session.is_leaving = True

    def shut_down_at(self, broker: BrokerImage, offset: int) -> None:
        """The broker may stop once all active brokers have metadata up to `offset`. Later calls have higher offsets."""
        session = self._of(broker.id, broker.epoch)
        if session is not None:
            session.shutdown_offset = offset

    def may_stop(self, broker: BrokerImage, brokers: Mapping[int, BrokerImage]) -> bool:
        """True if all active brokers have the metadata with the new leaders of the partitions that this broker led."""
        session = self._of(broker.id, broker.epoch)
        if session is None or session.shutdown_offset is None:
            return True
        reached = [
            NO_OFFSET if other is None else other.metadata_offset
            for each in brokers.values()
            if each.is_active
            for other in (self._of(each.id, each.epoch),)
        ]
        return all(session.shutdown_offset <= offset for offset in reached)

    def due_ms(self, brokers: Mapping[int, BrokerImage], timeout_ms: int) -> int | None:
        """Returns when the next broker must be fenced if no further heartbeat arrives; None if there is none."""
        ends = [end for broker in brokers.values() if (end := self._end_ms(broker, timeout_ms)) is not None]
        return min(ends, default=None)

    def stale(self, brokers: Mapping[int, BrokerImage], timeout_ms: int, now_ms: int) -> BrokerImage | None:
        """Returns the broker to fence next: the first to have expired or to be leaving; None if there is none."""
        ends = [
            (end, broker.id) for broker in brokers.values() if (end := self._end_ms(broker, timeout_ms)) is not None
        ]
        end_ms, broker_id = min(ends, default=(now_ms + 1, NO_OFFSET))
        return brokers[broker_id] if end_ms <= now_ms else None

    def _end_ms(self, broker: BrokerImage, timeout_ms: int) -> int | None:
        """Returns the first time at which the broker is expired."""
        session = None if broker.fenced else self._of(broker.id, broker.epoch)
        if session is None:
            return None
        if session.is_leaving:
            return session.last_contact_ms
        return None if broker.id == self._own_id else session.last_contact_ms + timeout_ms + 1

    def _of(self, broker_id: int, epoch: int) -> _Session | None:
        session = self._sessions.get(broker_id)
        return session if session is not None and session.epoch == epoch else None
