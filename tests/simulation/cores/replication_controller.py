"""A scripted controller of one partition: fencing, elections, the ELR and AlterPartition by Kafka's rules."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from odradek.partitions.in_sync import BrokerStanding, IsrDecision, IsrProposal
from odradek.wire.errors import ErrorCode

IDS: Final = (1, 2, 3)
MIN_INSYNC: Final = 2
SESSION_MS: Final = 250


@dataclass
class Image:
    """The metadata of brokers: the partition, and the brokers' registrations."""

    leader: int = 1
    leader_epoch: int = 0
    partition_epoch: int = 0
    isr: tuple[int, ...] = IDS
    elr: tuple[int, ...] = ()
    brokers: dict[int, BrokerStanding] = field(default_factory=dict)


class Clock(Protocol):
    """A source of the time."""

    @property
    def now_ms(self) -> int: ...


class Controller:
    """Decides by Kafka's rules, at once and durably; its decisions reach each broker late and in order."""

    def __init__(self, clock: Clock, publish: Callable[[Image], None]) -> None:
        self.clock = clock
        self.publish = publish
        self.now = Image(brokers={each: BrokerStanding(each, is_active=True) for each in IDS})
        self.offset = 10
        self.heard_ms = dict.fromkeys(IDS, 0)

    def heartbeat(self, broker_id: int, epoch: int) -> None:
        standing = self.now.brokers[broker_id]
        if standing.epoch == epoch:
            self.heard_ms[broker_id] = self.clock.now_ms
            if not standing.is_active:
                self._stand(broker_id, BrokerStanding(epoch, is_active=True))
                self._change(self.now.isr, self.now.elr)

    def look(self) -> None:
        for broker_id, standing in list(self.now.brokers.items()):
            if standing.is_active and self.clock.now_ms - self.heard_ms[broker_id] > SESSION_MS:
                self._stand(broker_id, BrokerStanding(standing.epoch, is_active=False))
                self._change([each for each in self.now.isr if each != broker_id], self.now.elr)

    def register(self, broker_id: int, *, clean: bool) -> int:
        self.offset += 1
        self._stand(broker_id, BrokerStanding(self.offset, is_active=False))
        self.heard_ms[broker_id] = self.clock.now_ms
        isr = [each for each in self.now.isr if each != broker_id]
        elr = self.now.elr if clean else tuple(each for each in self.now.elr if each != broker_id)
        self._change(isr, elr, lost=None if clean else broker_id)
        return self.offset

    def _stand(self, broker_id: int, standing: BrokerStanding) -> None:
        self.now = replace(self.now, brokers={**self.now.brokers, broker_id: standing})

    def _change(self, isr: Iterable[int], elr: Iterable[int], lost: int | None = None) -> None:
        """Sets the ISR, and another leader if the current one cannot lead; the ELR as in KIP-966."""
        before = self.now
        isr = tuple(isr)
        elr = () if len(isr) >= MIN_INSYNC else tuple(sorted({*elr, *before.isr} - {*isr} - {lost}))
        leader, active = before.leader, [each for each in IDS if before.brokers[each].is_active]
        if leader not in isr or leader not in active:
            candidates = [each for each in isr if each in active] or [each for each in elr if each in active]
            leader = candidates[0] if candidates else -1
            if leader >= 0 and leader not in isr:
                isr = tuple(sorted({*isr, leader}))
                elr = () if len(isr) >= MIN_INSYNC else tuple(each for each in elr if each != leader)
        epoch = before.leader_epoch + (leader != before.leader)
        after = (leader, epoch, isr, elr)
        changed = after != (before.leader, before.leader_epoch, before.isr, before.elr)
        self.now = replace(
            before,
            leader=leader,
            leader_epoch=epoch,
            isr=isr,
            elr=elr,
            partition_epoch=before.partition_epoch + changed,
        )
        self.publish(self.now)

    def alter_partition(self, leader: int, proposal: IsrProposal) -> IsrDecision | ErrorCode:
        now = self.now
        if proposal.leader_epoch != now.leader_epoch or leader != now.leader:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != now.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member in proposal.members:
            standing = now.brokers[member.broker_id]
            if not standing.is_active or member.broker_epoch not in (-1, standing.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        self._change(proposal.isr, now.elr)
        return IsrDecision(self.now.leader_epoch, self.now.isr, self.now.partition_epoch)
