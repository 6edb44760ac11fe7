"""Brokers with logs under the controller's decisions: leaders that append, followers that fetch, high watermarks.

Each broker acts on metadata as far as it has learnt it, and on the answers to its own AlterPartition. What a leader's
high watermark has passed is committed, and noted once and for all: a later leader has to have it.
"""

from dataclasses import dataclass, field
from random import Random

from cluster_world import ClusterWorld

from odradek.coordinator.metadata.controller.partition_change import effective_min_insync
from odradek.coordinator.metadata.image.image import PartitionImage

Place = tuple[str, int]


@dataclass
class Replica:
    """A broker's log of one partition, and what it does with it in its leader epoch.

    `pending` are the members of a proposal whose answer has not come: they count as in sync until it has.
    """

    log: list[tuple[int, int]] = field(default_factory=list)
    view: PartitionImage | None = None
    high_watermark: int = 0
    first_offset: int = 0
    acknowledged: dict[int, tuple[int, int]] = field(default_factory=dict)
    pending: set[int] = field(default_factory=set)

    def learn(self, partition):
        """Take over newer metadata; a new leader epoch begins with nothing acknowledged."""
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
    """One process. `presents` is the epoch that it finds beside its logs at its next start."""

    id: int
    is_running: bool = False
    epoch: int = -1
    presents: int = -1
    loses: bool = False
    wants_stop: bool = False
    replicas: dict[Place, Replica] = field(default_factory=dict)


class ClusterModel:
    """The controller and its brokers. `committed` has what was committed in each partition, in order."""

    def __init__(self, seed, *, brokers=5, static=None):
        self.random = Random(seed)
        self.world = ClusterWorld(static)
        self.brokers = {each: Broker(each) for each in range(1, brokers + 1)}
        self.committed: dict[Place, list] = {}
        self.min_insync: dict[Place, int] = {}
        self.unclean: set[Place] = set()
        self.guaranteed: dict[Place, int] = {}
        self.incarnations = 0
        self.values = 0
        self.proposed: set[int] = set()
        self.lost_now: set[int] = set()

    @property
    def image(self):
        return self.world.image

    def places(self):
        return [(topic.name, at) for topic in self.image.topics_by_name.values() for at in range(len(topic.partitions))]

    def partition(self, place):
        return self.world.partition(*place)

    def running(self):
        return [broker for broker in self.brokers.values() if broker.is_running]

    # Steps of a broker

    def start(self, broker):
        """Register; a refusal leaves it stopped."""
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
        """End at once. After a lossy crash the ends of logs are missing, and the epoch that was stored after them.

        Without the mark of a clean end nothing is lost, but the broker cannot tell.
        """
        broker.is_running = False
        if lossy or not marked:
            broker.presents = -1
        broker.loses |= lossy

    def lose(self, broker):
        """What was lost in the crash is found to be missing."""
        broker.loses = False
        for replica in broker.replicas.values():
            del replica.log[self.random.randint(0, len(replica.log)) :]
            replica.high_watermark = min(replica.high_watermark, len(replica.log))

    def beat(self, broker, *, fence=False):
        answer = self.world.heartbeat(broker.id, epoch=broker.epoch, fence=fence, stop=broker.wants_stop)
        if answer.error_code or answer.should_shut_down:
            broker.is_running = False

    def learn(self, broker):
        """Apply the metadata as it is now."""
        for place in self.places():
            partition = self.partition(place)
            if broker.id in partition.replicas:
                broker.replicas.setdefault(place, Replica()).learn(partition)
        for place in [place for place in broker.replicas if place not in self.places()]:
            del broker.replicas[place]
        for place, replica in broker.replicas.items():
            if broker.id not in self.partition(place).replicas:
                replica.log.clear()
                replica.view, replica.high_watermark = None, 0

    # Steps of a partition

    def leading(self, broker):
        """The places that the broker believes to lead."""
        return [place for place, each in broker.replicas.items() if each.view and each.view.leader == broker.id]

    def append(self, broker, place):
        self.values += 1
        replica = broker.replicas[place]
        replica.log.append((self.values, replica.view.leader_epoch))
        self.advance_high_watermark(broker, place)

    def fetch(self, follower, place):
        """A follower fetches from the leader that it believes in, if they are in the same epoch."""
        own = follower.replicas[place]
        leader = self.brokers.get(own.view.leader) if own.view else None
        if leader is None or leader is follower or not leader.is_running:
            return
        theirs = leader.replicas.get(place)
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
        self.advance_high_watermark(leader, place)

    def advance_high_watermark(self, leader, place):
        """Commit what all in-sync replicas have, if they are enough."""
        replica = leader.replicas[place]
        view = replica.view
        enough = effective_min_insync(self.min_insync[place], view.replicas)
        if len(view.isr) < enough or leader.id not in view.isr:
            return
        in_sync = {*view.isr, *replica.pending}
        ends = [
            len(replica.log) if each == leader.id else replica.acknowledged.get(each, (0, -1))[0] for each in in_sync
        ]
        if min(ends) > replica.high_watermark:
            replica.high_watermark = min(ends)
            self.commit(place, replica.log[: replica.high_watermark], enough)

    def commit(self, place, values, enough):
        known = self.committed.setdefault(place, [])
        if place not in self.unclean:
            shared = min(len(known), len(values))
            assert values[:shared] == known[:shared], f"committed-prefix {place}: {known} and {values}"
        if len(values) > len(known):
            known[:] = values
            # A leader that has not learnt of a lost disk yet counts the follower that had acknowledged before.
            self.guaranteed[place] = min(enough, len([each for each in self.holders()[place] if self.has(each, place)]))

    def propose(self, leader, place):
        """Add a follower that has caught up to the ISR, or remove one."""
        replica = leader.replicas[place]
        view = replica.view
        followers = [each for each in view.replicas if each != leader.id]
        if not followers:
            return
        chosen = self.random.choice(followers)
        epochs = {each: epoch for each, (_, epoch) in replica.acknowledged.items()}
        if chosen in view.isr:
            if self.random.random() < 0.8:  # a follower seldom lags
                return
            members = [each for each in view.isr if each != chosen]
        elif self.has_caught_up(replica, chosen):
            members = [*view.isr, chosen]
        else:
            return
        self.proposed = {*members}
        self.world.alter_isr(
            leader.id,
            *place,
            [(each, epochs.get(each, -1) if each == chosen else -1) for each in members],
            leader_epoch=view.leader_epoch,
            partition_epoch=view.partition_epoch,
            recovery=0,
        )
        replica.pending = {*members}
        if self.random.random() < 0.8:  # else the answer is lost
            replica.pending = set()
            replica.learn(self.partition(place))

    def has_caught_up(self, replica, follower):
        end, _ = replica.acknowledged.get(follower, (-1, -1))
        return end >= replica.high_watermark and end >= replica.first_offset

    # What is guaranteed

    def has(self, broker_id, place):
        """Whether the broker has all that is committed."""
        committed = self.committed.get(place, [])
        replica = self.brokers[broker_id].replicas.get(place)
        return not committed or (replica is not None and replica.log[: len(committed)] == committed)

    def holders(self):
        """The brokers that are in ISR or ELR, by place."""
        return {place: {*self.partition(place).isr, *self.partition(place).elr} for place in self.places()}

    def note_loss(self, broker_id, before):
        """One of those that had everything may have lost it."""
        self.lost_now.add(broker_id)
        for place, those in before.items():
            if broker_id in those and place in self.guaranteed:
                self.guaranteed[place] -= 1

    def note_wanted(self, place, before):
        """The operator took replicas away: fewer are guaranteed, and of those that are left, all."""
        gone = before - set(self.partition(place).replicas)
        now = effective_min_insync(self.min_insync[place], self.partition(place).replicas)
        if place in self.guaranteed:
            self.guaranteed[place] = min(self.guaranteed[place] - len(gone), now)
