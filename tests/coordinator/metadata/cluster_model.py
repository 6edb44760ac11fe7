"""Brokers with logs under the controller's decisions: leaders that append, followers that fetch, high watermarks.

Each broker acts on the metadata that it has received and on the answers to its own AlterPartition requests. What is
below a leader's high watermark is committed, and recorded for good: every later leader must have it.
"""

from dataclasses import dataclass, field
from random import Random

from cluster_world import ClusterWorld

from odradek.coordinator.metadata.controller.partition_change import effective_min_insync
from odradek.coordinator.metadata.image.image import PartitionImage

Key = tuple[str, int]


@dataclass
class Replica:
    """A broker's log of one partition, and its state in its leader epoch.

    `pending` has the members of a proposal that is not answered yet: they count as in sync until it is.
    """

    log: list[tuple[int, int]] = field(default_factory=list)
    view: PartitionImage | None = None
    high_watermark: int = 0
    first_offset: int = 0
    acknowledged: dict[int, tuple[int, int]] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)

    def learn(self, partition):
        """Applies newer metadata; a new leader epoch begins without acknowledgements."""
        if self.view is not None and partition.partition_epoch <= self.view.partition_epoch:
            return
        if self.view is None or partition.leader_epoch > self.view.leader_epoch:
            self.acknowledged = {}
            self.first_offset = len(self.log)
            self.high_watermark = min(self.high_watermark, len(self.log))
        self.view = partition
        self.pending = set()


@dataclass
class Broker:
    """One process. `presents` is the broker epoch that it finds beside its logs at its next start."""

    id: int
    is_running: bool = False
    epoch: int = -1
    presents: int = -1
    loses: bool = False
    wants_stop: bool = False
    replicas: dict[Key, Replica] = field(default_factory=dict)


class ClusterModel:
    """The controller and its brokers. `committed` has the committed records of each partition, in order."""

    def __init__(self, seed, *, brokers=5, static=None):
        self.random = Random(seed)
        self.world = ClusterWorld(static)
        self.brokers = {each: Broker(each) for each in range(1, brokers + 1)}
        self.committed: dict[Key, list] = {}
        self.min_insync: dict[Key, int] = {}
        self.unclean: set[Key] = set()
        self.guaranteed: dict[Key, int] = {}
        self.incarnations = 0
        self.values = 0
        self.proposed: set[int] = set()
        self.lost_now: set[int] = set()

    @property
    def image(self):
        return self.world.image

    def partition_keys(self):
        return [(topic.name, at) for topic in self.image.topics_by_name.values() for at in range(len(topic.partitions))]

    def partition(self, key):
        return self.world.partition(*key)

    def running(self):
        return [broker for broker in self.brokers.values() if broker.is_running]

    # Steps of a broker

    def start(self, broker):
        """Registers the broker; it stays stopped if the controller refuses."""
        self.incarnations += 1
        before = self.holders()
        answer = self.world.register(broker.id, self.incarnations, previous=broker.presents)
        if answer.error_code:
            return
        if broker.presents == -1:
            self.note_loss(broker.id, before)
        if broker.loses:
            self.lose(broker)
        broker.is_running, broker.wants_stop = True, False
        broker.epoch = broker.presents = answer.broker_epoch
        for replica in broker.replicas.values():
            replica.view = None

    def crash(self, broker, *, lossy, marked=True):
        """Ends the broker at once.

        After a lossy crash the ends of logs are missing, and so is the broker epoch stored after them. Without the mark
        of a clean shutdown nothing is lost, but the broker cannot know that.
        """
        broker.is_running = False
        if lossy or not marked:
            broker.presents = -1
        broker.loses |= lossy

    def lose(self, broker):
        """Truncates the logs by what the crash has lost."""
        broker.loses = False
        for replica in broker.replicas.values():
            del replica.log[self.random.randint(0, len(replica.log)) :]
            replica.high_watermark = min(replica.high_watermark, len(replica.log))

    def beat(self, broker, *, fence=False):
        answer = self.world.heartbeat(broker.id, epoch=broker.epoch, fence=fence, stop=broker.wants_stop)
        if answer.error_code or answer.should_shut_down:
            broker.is_running = False

    def learn(self, broker):
        """Applies the current metadata."""
        for key in self.partition_keys():
            partition = self.partition(key)
            if broker.id in partition.replicas:
                broker.replicas.setdefault(key, Replica()).learn(partition)
        for key in [key for key in broker.replicas if key not in self.partition_keys()]:
            del broker.replicas[key]
        for key, replica in broker.replicas.items():
            if broker.id not in self.partition(key).replicas:
                replica.log.clear()
                replica.view, replica.high_watermark = None, 0

    # Steps of a partition

    def leading(self, broker):
        """The partitions that the broker leads by the metadata that it has."""
        return [key for key, each in broker.replicas.items() if each.view and each.view.leader == broker.id]

    def append(self, broker, key):
        self.values += 1
        replica = broker.replicas[key]
        replica.log.append((self.values, replica.view.leader_epoch))
        self.advance_high_watermark(broker, key)

    def fetch(self, follower, key):
        """A follower fetches from its leader, if both are in the same leader epoch."""
        own = follower.replicas[key]
        leader = self.brokers.get(own.view.leader) if own.view else None
        if leader is None or leader is follower or not leader.is_running:
            return
        theirs = leader.replicas.get(key)
        same = theirs and theirs.view and theirs.view.leader_epoch == own.view.leader_epoch
        if not same or theirs.view.leader != leader.id:
            return
        common = next((at for at, each in enumerate(own.log) if theirs.log[at : at + 1] != [each]), len(own.log))
        if common < len(own.log):
            del own.log[common:]
            return
        theirs.acknowledged[follower.id] = (len(own.log), follower.epoch)
        own.log += theirs.log[common : common + self.random.randint(1, 4)]
        own.high_watermark = max(own.high_watermark, min(theirs.high_watermark, len(own.log)))
        self.advance_high_watermark(leader, key)

    def advance_high_watermark(self, leader, key):
        """Commits what all in-sync replicas have, if they are at least min.insync.replicas."""
        replica = leader.replicas[key]
        view = replica.view
        enough = effective_min_insync(self.min_insync[key], view.replicas)
        if len(view.isr) < enough or leader.id not in view.isr:
            return
        in_sync = {*view.isr, *replica.pending}
        ends = [
            len(replica.log) if each == leader.id else replica.acknowledged.get(each, (0, -1))[0] for each in in_sync
        ]
        if min(ends) > replica.high_watermark:
            replica.high_watermark = min(ends)
            self.commit(key, replica.log[: replica.high_watermark], enough)

    def commit(self, key, values, enough):
        known = self.committed.setdefault(key, [])
        if key not in self.unclean:
            shared = min(len(known), len(values))
            assert values[:shared] == known[:shared], f"committed-prefix {key}: {known} and {values}"
        if len(values) > len(known):
            known[:] = values
            # A leader without the metadata about a lost disk still counts that follower's earlier acknowledgement.
            self.guaranteed[key] = min(enough, len([each for each in self.holders()[key] if self.has(each, key)]))

    def propose(self, leader, key):
        """Proposes to add a caught-up follower to the ISR, or to remove one."""
        replica = leader.replicas[key]
        view = replica.view
        followers = [each for each in view.replicas if each != leader.id]
        if not followers:
            return
        chosen = self.random.choice(followers)
        epochs = {each: epoch for each, (_, epoch) in replica.acknowledged.items()}
        if chosen in view.isr:
            if self.random.random() < 0.8:  # lag is rare
                return
            members = [each for each in view.isr if each != chosen]
        elif self.has_caught_up(replica, chosen):
            members = [*view.isr, chosen]
        else:
            return
        self.proposed = {*members}
        self.world.alter_isr(
            leader.id,
            *key,
            [(each, epochs.get(each, -1) if each == chosen else -1) for each in members],
            leader_epoch=view.leader_epoch,
            partition_epoch=view.partition_epoch,
            recovery=0,
        )
        replica.pending = {*members}
        if self.random.random() < 0.8:  # otherwise the answer is lost
            replica.pending = set()
            replica.learn(self.partition(key))

    def has_caught_up(self, replica, follower):
        end, _ = replica.acknowledged.get(follower, (-1, -1))
        return end >= replica.high_watermark and end >= replica.first_offset

    # Guarantees

    def has(self, broker_id, key):
        """True if the broker has all committed records."""
        committed = self.committed.get(key, [])
        replica = self.brokers[broker_id].replicas.get(key)
        return not committed or (replica is not None and replica.log[: len(committed)] == committed)

    def holders(self):
        """The brokers in ISR or ELR, by partition."""
        return {key: {*self.partition(key).isr, *self.partition(key).elr} for key in self.partition_keys()}

    def note_loss(self, broker_id, before):
        """A broker that had all committed records may have lost some."""
        self.lost_now.add(broker_id)
        for key, those in before.items():
            if broker_id in those and key in self.guaranteed:
                self.guaranteed[key] -= 1

    def note_removed_replicas(self, key, before):
        """The operator removed replicas: the guarantee shrinks by those, to at most all that are left."""
        gone = before - set(self.partition(key).replicas)
        now = effective_min_insync(self.min_insync[key], self.partition(key).replicas)
        if key in self.guaranteed:
            self.guaranteed[key] = min(self.guaranteed[key] - len(gone), now)
