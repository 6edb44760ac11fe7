"""The invariants of a cluster, checked after every step in the nodes' memory and on their disks.

A batch is committed once any replica's high watermark has passed it; it is recorded then, and compared with every
replica from then on. A step is an event of the trace at a node, such as the arrival of a message, or the moment when
one of the node's blocking calls takes effect.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from operator import attrgetter, is_not
from typing import Final, NamedTuple

from odradek.coordinator.metadata.image.image import MetadataImage, PartitionImage
from odradek.coordinator.quorum.values import ReplicaKey
from odradek.coordinator.quorum.voters import VotersAt, VoterSet
from odradek.gateway.process import Broker
from odradek.gateway.quorum import MetadataReplica
from odradek.gateway.replication.replica import Replica
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.gateway.testing.simulation.disk import DiskLog
from odradek.gateway.testing.simulation.environment import World
from odradek.gateway.testing.simulation.loads.oracle import Invariant, Violation
from odradek.partitions.leader import Leader
from odradek.partitions.metadata_log import METADATA_KEY
from odradek.partitions.model import PartitionKey, StoredBatch
from odradek.partitions.state import PartitionState

EPOCH_AT: Final = slice(12, 16)
"""The bytes of a batch that contain its leader epoch."""
_LOG: Final = attrgetter("log")
_REPLICA: Final = attrgetter("replica")


class Mirror:
    """The batches of one log on one disk, updated as the log grows, is truncated, and is loaded again after a crash."""

    __slots__ = ("batches", "checked", "end_offset", "live", "newest")

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.newest: StoredBatch | None = None
        self.end_offset = 0
        """The offset after the last batch."""
        self.checked = 0
        """The number of batches at the start that are known to equal the committed ones."""
        self.live: object = None

    def follow(self, log: DiskLog) -> int:
        """Read the log from the disk; return the index of the first new batch, or the number of batches if none is."""
        start = self._take(log)
        self.newest = self.batches[-1] if self.batches else None
        self.end_offset = self.newest.last_offset + 1 if self.newest is not None else 0
        return start

    def _take(self, log: DiskLog) -> int:
        live = log.live
        if live is not self.live or not self._goes_on(log):
            self.live = live
            self.batches = [batch for segment in live.segments for batch in segment.batches]
            self.checked = 0
            return 0
        known = len(self.batches)
        last_base = self.batches[-1].base_offset if known else -1
        new: list[StoredBatch] = []
        for segment in reversed(live.segments):
            new += takewhile(lambda batch: batch.base_offset > last_base, reversed(segment.batches))
            if segment.base_offset <= last_base:
                break
        self.batches += reversed(new)
        return known

    def _goes_on(self, log: DiskLog) -> bool:
        """True if the newest known batch is still in the log."""
        if not self.batches:
            return True
        last = self.batches[-1]
        for segment in reversed(log.live.segments):
            if segment.base_offset <= last.base_offset:
                place = len(segment.batches) - 1
                while place >= 0 and segment.batches[place].base_offset > last.base_offset:
                    place -= 1
                return place >= 0 and segment.batches[place] is last
        return False

    def is_up_to_date(self, log: DiskLog) -> bool:
        """True if the batches are those of this log, and its end has not changed."""
        live = log.live
        if live is not self.live or live.log_end_offset != self.end_offset:
            return False
        newest = live.segments[-1].batches
        return (newest[-1] if newest else None) is self.newest or self._goes_on(log)


class Committed:
    """All batches of one partition that were ever committed, and all that were ever on a disk (`seen`)."""

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.places: dict[int, int] = {}
        self.seen: dict[tuple[int, bytes], bytes] = {}

    def add(self, batch: StoredBatch) -> None:
        """Append the next committed batch."""
        self.places[batch.base_offset] = len(self.batches)
        self.batches.append(batch)

    @property
    def end_offset(self) -> int:
        """The offset after the last committed batch."""
        return self.batches[-1].last_offset + 1 if self.batches else 0


def _keys(voters: VoterSet | None) -> set[ReplicaKey]:
    return set() if voters is None else {each.key for each in voters.voters}


class Member(NamedTuple):
    """The replica of a partition on a node."""

    node: int
    key: PartitionKey


class WatchedLog(NamedTuple):
    """A log on a disk, and its mirror."""

    log: DiskLog
    member: Member
    mirror: Mirror


class WatchedReplica:
    """A replica in a node's memory, and its state at the last check."""

    __slots__ = ("high_watermark", "member", "replica", "role", "state")

    def __init__(self, replica: Replica, member: Member) -> None:
        self.replica = replica
        self.member = member
        self.state: PartitionState | None = None
        self.high_watermark = 0
        self.role: object = None


class Invariants:
    """Checks all nodes. The caller must not raise a Violation into production code, which might catch it.

    `compacted` contains topics whose batches change; `lost` contains nodes whose disk was lost and that have not
    registered since. `on_committed` contains callbacks, by topic, for each batch that is newly committed.
    """

    def __init__(self, world: World, hosts: Mapping[int, BrokerHost]) -> None:
        self.compacted: set[str] = set()
        self.lost: set[int] = set()
        self.on_committed: dict[str, Callable[[StoredBatch], None]] = {}
        self.tally: Counter[str] = Counter()
        self.image: MetadataImage | None = None
        self._world = world
        self._hosts = hosts
        self._nodes = {host.host: node for node, host in hosts.items()}
        self._mirrors: dict[Member, Mirror] = {}
        self._committed: dict[PartitionKey, Committed] = {}
        self._logs: dict[int, Sequence[WatchedLog]] = dict.fromkeys(hosts, ())
        self._replicas: dict[int, Sequence[WatchedReplica]] = dict.fromkeys(hosts, ())
        self._active: dict[int, int] = {}
        self._voters: dict[int, tuple[MetadataReplica, int, VotersAt | None]] = {}
        self._images: dict[int, MetadataImage | None] = {}
        self._epochs: dict[int, int] = {}

    def look(self, name: str) -> None:
        """Check everything that a step of the host `name` may have changed. Raises Violation."""
        node = self._nodes.get(name)
        if node is None:
            return
        host = self._hosts[node]
        for log, member, mirror in self._logs_of(node, self._world.disk(name).logs):
            if not mirror.is_up_to_date(log):
                self._look_at_disk(member, log, mirror)
        broker = host.broker if host.alive else None
        if broker is not None:
            self._look_at_memory(node, broker)
            self._look_at_image(node, broker)

    def look_at_all(self) -> None:
        """Check all hosts now, without waiting for their next steps. Raises Violation."""
        for host in self._hosts.values():
            self.look(host.host)

    # Disks

    def _logs_of(self, node: int, logs: Mapping[PartitionKey, DiskLog]) -> Sequence[WatchedLog]:
        """The logs on a node's disk; cached, since after most steps the logs are the same."""
        watched = self._logs[node]
        if len(watched) != len(logs) or any(map(is_not, logs.values(), map(_LOG, watched))):
            members = [Member(node, key) for key in logs]
            watched = self._logs[node] = [
                WatchedLog(log, member, self._mirrors.setdefault(member, Mirror()))
                for member, log in zip(members, logs.values(), strict=True)
            ]
        return watched

    def _look_at_disk(self, member: Member, log: DiskLog, mirror: Mirror) -> None:
        start = mirror.follow(log)
        if member.key.topic in self.compacted:
            return
        facts = self._facts(member.key)
        for batch in mirror.batches[start:]:
            data = bytes(batch.data)
            known = facts.seen.setdefault((batch.base_offset, data[EPOCH_AT]), data)
            if known != data:
                epoch = int.from_bytes(data[EPOCH_AT], "big")
                where = f"{member.key} of node {member.node}"
                raise Violation(Invariant.LOG_MATCHING, f"{where} has another batch at {batch.base_offset} of {epoch}")
        if start == 0:
            self._check_member(member)

    def _facts(self, key: PartitionKey) -> Committed:
        found = self._committed.get(key)
        if found is None:
            found = self._committed[key] = Committed()
        return found

    # Memory

    def _look_at_memory(self, node: int, broker: Broker) -> None:
        for watched in self._replicas_of(node, broker):
            replica = watched.replica
            state = replica.open_log
            if state is None:
                continue
            if state is not watched.state:
                watched.state, watched.high_watermark = state, 0
            if state.high_watermark != watched.high_watermark:
                self._high_watermark_moved(watched, state.high_watermark)
            if replica.role is not watched.role:
                watched.role = replica.role
                self._role_changed(watched.member, replica)
        self._look_at_voters(node, broker)

    def _replicas_of(self, node: int, broker: Broker) -> Sequence[WatchedReplica]:
        """The replicas in a node's memory; cached, since after most steps they are the same."""
        watched, replicas = self._replicas[node], [*broker.services.replicas.opened(), broker.services.quorum.replica]
        if len(watched) != len(replicas) or any(map(is_not, replicas, map(_REPLICA, watched))):
            known = {id(each.replica): each for each in watched}
            watched = self._replicas[node] = [
                known.get(id(each)) or WatchedReplica(each, Member(node, each.key)) for each in replicas
            ]
        return watched

    def _high_watermark_moved(self, watched: WatchedReplica, now: int) -> None:
        before, watched.high_watermark = watched.high_watermark, now
        if now < before:
            text = f"{watched.member.key} of node {watched.member.node} goes from {before} to {now}"
            raise Violation(Invariant.HIGH_WATERMARK_GROWS, text)
        self._commits(watched.member, now)

    def _look_at_voters(self, node: int, broker: Broker) -> None:
        """Compare a voter set that a leader appends with the committed set: they may differ by one voter."""
        quorum = broker.services.quorum
        replica, core = quorum.replica, quorum.core
        named = replica.voters
        of, epoch, known = self._voters.get(node, (None, -1, None))
        if of is not replica:
            epoch, known = -1, None
        elif epoch == core.epoch and known is named:
            return
        self._voters[node] = replica, core.epoch, named
        if named is None or named.before is None or core.leadership is None or epoch != core.epoch:
            return
        self.tally["voter sets"] += 1
        committed = replica.voters_before(core.high_watermark)
        differing = _keys(named.voters) ^ _keys(committed or named.before)
        if len(differing) > 1 and _keys(named.voters) != _keys(named.before):
            text = f"node {node} appends {sorted(_keys(named.voters))} while {sorted(_keys(committed))} is committed"
            raise Violation(Invariant.ONE_VOTER_AT_A_TIME, text)

    def _commits(self, member: Member, high_watermark: int) -> None:
        """Record or compare the replica's batches below its high watermark, which are committed."""
        if member.key.topic in self.compacted:
            return
        facts, mirror = self._facts(member.key), self._mirrors.get(member)
        if mirror is None:
            return
        before = facts.end_offset
        place = mirror.checked
        while place < len(mirror.batches) and mirror.batches[place].last_offset < high_watermark:
            self._is_committed(member, facts, mirror.batches[place])
            place += 1
        mirror.checked = place
        if facts.end_offset > before and member.key != METADATA_KEY:
            self._check_members(member.key)

    def _is_committed(self, member: Member, facts: Committed, batch: StoredBatch) -> None:
        if batch.base_offset >= facts.end_offset:
            facts.add(batch)
            follow = self.on_committed.get(member.key.topic)
            if follow is not None:
                follow(batch)
            return
        place = facts.places.get(batch.base_offset)
        same = place is not None and facts.batches[place].data == batch.data
        if not same:
            where = f"{member.key} of node {member.node}"
            invariant = Invariant.METADATA_PREFIX if member.key == METADATA_KEY else Invariant.COMMITTED_SAME
            raise Violation(invariant, f"{where} has another batch at {batch.base_offset} below its high watermark")

    def _role_changed(self, member: Member, replica: Replica) -> None:
        role = replica.role
        if not isinstance(role, Leader):
            return
        self.tally["leaders"] += 1
        newest = self._newest(member.key)
        if member.key == METADATA_KEY or newest is None or newest.leader_epoch > role.state.leader_epoch:
            return  # the quorum has its own check; or another leader was elected since
        self._check_holds(member, Invariant.LEADER_COMPLETE, "leads")

    # Metadata

    def _look_at_image(self, node: int, broker: Broker) -> None:
        services = broker.services
        epoch = services.controller.epoch
        if epoch is not None and services.quorum.active_epoch == epoch:
            self.tally["controllers"] += epoch not in self._active
            other = self._active.setdefault(epoch, node)
            if other != node:
                raise Violation(Invariant.ONE_CONTROLLER, f"nodes {other} and {node} decide in epoch {epoch}")
        image = services.metadata.image
        if self._images.get(node) is image:
            return
        self._images[node] = image
        if self.image is None or image.offset > self.image.offset:
            before, self.image = self.image, image
            self._image_changed(before, image)

    def _image_changed(self, before: MetadataImage | None, image: MetadataImage) -> None:
        for node in list(self.lost):
            broker = image.brokers.get(node)
            if broker is not None and broker.epoch != self._epochs.get(node):
                self.lost.discard(node)  # it has registered without its disk
        for node, broker in image.brokers.items():
            self._epochs[node] = broker.epoch
        for name, topic in image.topics_by_name.items():
            was = None if before is None else before.topic(name)
            if was is topic:
                continue
            for index, part in enumerate(topic.partitions):
                old = was.partitions[index] if was is not None and index < len(was.partitions) else None
                if old is part:
                    continue
                self.tally["isr changes"] += old is not None and old.isr != part.isr
                self.tally["elections"] += old is not None and old.leader_epoch != part.leader_epoch
                self._check_members(PartitionKey(name, topic.topic_id, index))

    def _newest(self, key: PartitionKey) -> PartitionImage | None:
        found = None if self.image is None else self.image.topic(key.topic)
        if found is None or found.topic_id != key.topic_id or key.index >= len(found.partitions):
            return None
        return found.partitions[key.index]

    def _check_members(self, key: PartitionKey) -> None:
        part = self._newest(key)
        for node in () if part is None else (*part.isr, *part.elr):
            self._check_member(Member(node, key))

    def _check_member(self, member: Member) -> None:
        """Check a replica after a commit, after a truncation, or after its log was loaded again."""
        if self._may_be_elected(member) and self._lacks(member):
            self._look_at_all_images()  # a controller may have published since its last step
            if self._may_be_elected(member):
                self._check_holds(member, Invariant.IN_SYNC_HOLDS, "may be elected")

    def _may_be_elected(self, member: Member) -> bool:
        part = self._newest(member.key)
        return part is not None and member.node in (*part.isr, *part.elr)

    def _look_at_all_images(self) -> None:
        for node, host in self._hosts.items():
            if host.alive and host.broker is not None:
                self._look_at_image(node, host.broker)

    def _check_holds(self, member: Member, invariant: Invariant, why: str) -> None:
        if self._lacks(member):
            mirror = self._mirrors.get(member)
            end = 0 if mirror is None else mirror.end_offset
            where = f"{member.key} of node {member.node}"
            text = f"{where} {why}, ends at {end} and lacks some of {self._committed[member.key].end_offset}"
            raise Violation(invariant, text)

    def _lacks(self, member: Member) -> bool:
        """True if committed batches are missing from the disk of a replica that must have them."""
        facts, mirror = self._committed.get(member.key), self._mirrors.get(member)
        if facts is None or member.node in self.lost or member.key.topic in self.compacted:
            return False
        has: Sequence[StoredBatch] = () if mirror is None else mirror.batches
        count, start = len(facts.batches), 0 if mirror is None else mirror.checked
        same = len(has) >= count and all(
            has[place] is facts.batches[place] or has[place].data == facts.batches[place].data
            for place in range(start, count)
        )
        if same and mirror is not None:
            mirror.checked = max(mirror.checked, count)
        return not same

    def in_sync(self) -> bool:
        """True if every replica of every partition is in sync, and no node in `lost` has still to register."""
        return self.image is not None and not self.lost and not self.out_of_sync()

    def out_of_sync(self) -> list[str]:
        """A description of each partition with replicas that are out of sync."""
        if self.image is None:
            return []
        return [
            f"{name}-{index} of {part.leader}: {sorted(set(part.replicas) - set(part.isr))}"
            for name, topic in self.image.topics_by_name.items()
            for index, part in enumerate(topic.partitions)
            if len(part.isr) < len(part.replicas)
        ]

    def partitions(self) -> list[PartitionImage]:
        """All partitions."""
        topics = () if self.image is None else self.image.topics_by_name.values()
        return [part for topic in topics for part in topic.partitions]

    def leaders(self) -> list[int]:
        """The node of the active controller, then the nodes that lead partitions."""
        if self.image is None:
            return []
        found = {part.leader for part in self.partitions()}
        active = [self._active[max(self._active)]] if self._active else []
        return [*active, *sorted(found & self._hosts.keys())]
