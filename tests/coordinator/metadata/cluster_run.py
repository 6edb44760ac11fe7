"""One random run of a cluster from a seed: the possible steps, their weights, and the check after every step."""

from cluster_invariants import Invariants
from cluster_model import ClusterModel

from odradek.coordinator.metadata.image.image import NO_LEADER

MAX_TOPICS = 3


LOSSY = ("lossy", "unclean", "unregister")
"""Steps that may lose records."""


class Run:
    """Steps drawn by weight; the weights themselves differ from seed to seed.

    With `only_kills`, brokers stop without the mark of a clean shutdown, but neither disks nor operators lose records.
    """

    def __init__(self, seed, *, only_kills=False):
        self.only_kills = only_kills
        self.model = ClusterModel(seed, brokers=4)
        self.random = self.model.random
        self.invariants = Invariants(self.model)
        self.steps = [name.removeprefix("step_") for name in dir(self) if name.startswith("step_")]
        rare = {"unclean": 0.02, "unregister": 0.05, "lossy": 0.3, "failover": 0.3, "stop": 0.3, "fence": 0.3}
        rare |= {"reassign": 0.4, "cancel": 0.2, "preferred": 0.4, "quick_restart": 0.5, "kill_all": 0.1}
        often = {"learn": 8, "append": 5, "fetch": 12, "propose": 5, "beat": 5, "start": 4, "time": 3}
        if only_kills:
            self.steps = [name for name in self.steps if name not in LOSSY]
        self.weights = [{**rare, **often}.get(name, 1) * self.random.choice((0.2, 1, 1, 5)) for name in self.steps]
        self.learning, self.fetching = self.random.choice((0.2, 0.6)), self.random.choice((0.3, 0.9))
        self.trace = []
        for broker in self.model.brokers.values():
            self.model.start(broker)
            self.model.beat(broker)

    def go(self, steps):
        """Takes `steps` steps, with a check after each; raises Violation."""
        for _ in range(steps):
            (name,) = self.random.choices(self.steps, self.weights)
            self.trace.append(name)
            self.model.proposed, self.model.lost_now = set(), set()
            getattr(self, f"step_{name}")()
            self.invariants.check()
        rebuilt = self.model.world.rebuilt().image
        assert rebuilt == self.model.image, "state equals replay"

    def any_of(self, items):
        items = list(items)
        return self.random.choice(items) if items else None

    def running(self):
        return self.any_of(self.model.running())

    def any_partition(self):
        return self.any_of(self.model.partition_keys())

    # Steps of brokers

    def step_learn(self):
        for broker in self.model.running():
            if self.random.random() < self.learning:
                self.model.learn(broker)

    def step_append(self):
        for broker in self.model.running():
            for key in self.model.leading(broker):
                if self.random.random() < 0.5:
                    self.model.append(broker, key)

    def step_fetch(self):
        for broker in self.model.running():
            for key in list(broker.replicas):
                if self.random.random() < self.fetching:
                    self.model.fetch(broker, key)

    def step_propose(self):
        for broker in self.model.running():
            key = self.any_of(self.model.leading(broker))
            if key:
                self.model.proposed = set()
                self.model.propose(broker, key)
                self.invariants.check()

    def step_beat(self):
        for broker in self.model.running():
            if self.random.random() < 0.7:
                self.model.beat(broker)
                self.invariants.check()

    def step_fence(self):
        broker = self.running()
        if broker:
            self.model.beat(broker, fence=True)

    def step_stop(self):
        broker = self.running()
        if broker:
            broker.wants_stop = True

    def step_crash(self):
        broker = self.running()
        if broker:
            self.model.crash(broker, lossy=False, marked=not self.only_kills)

    def step_kill_all(self):
        """All brokers and the controller stop at once, and start again in any order."""
        running = self.random.sample(self.model.running(), len(self.model.running()))
        for broker in running:
            self.model.crash(broker, lossy=False, marked=self.random.random() < 0.5)
        self.model.world.fail_over()
        for broker in running:
            self.start(broker)
            self.invariants.check()

    def step_lossy(self):
        broker = self.running()
        if broker:
            self.model.crash(broker, lossy=True)

    def step_start(self):
        self.start(self.any_of(each for each in self.model.brokers.values() if not each.is_running))

    def start(self, broker):
        if broker:
            self.model.start(broker)

    def step_quick_restart(self):
        """A broker restarts before its session ends, which only a new controller accepts."""
        broker = self.running()
        if broker:
            lossy = not self.only_kills and self.random.random() < 0.5
            self.model.crash(broker, lossy=lossy, marked=not self.only_kills)
            self.model.world.fail_over()
            self.start(broker)
            self.invariants.check()
            self.model.beat(broker)

    def step_time(self):
        for _ in self.model.world.advance(self.random.choice((500, 1000, 1000, 2000, 9500))):
            self.invariants.check()

    def step_failover(self):
        self.model.world.fail_over()

    # Steps of operators

    def step_create(self):
        name = f"t{len(self.model.image.topics_by_name)}"
        if len(self.model.image.topics_by_name) >= MAX_TOPICS:
            return
        minimum = self.random.randint(1, 3)
        configs = {"min.insync.replicas": str(minimum)}
        unclean = not self.only_kills and self.random.random() < 0.1
        if unclean:
            configs["unclean.leader.election.enable"] = "true"
        answer = self.model.world.create(
            name, partitions=2, factor=self.random.choice((1, 2, 3, 3, 3)), configs=configs
        )
        if not answer.error_code:
            for index in range(2):
                self.model.min_insync[name, index] = minimum
                if unclean:
                    self.model.unclean.add((name, index))

    def step_preferred(self):
        self.model.world.elect(0)

    def step_unclean(self):
        key = self.any_partition()
        if key and self.model.partition(key).leader == NO_LEADER:
            self.model.unclean.add(key)
            self.model.world.elect(1, *key)

    def step_reassign(self):
        self.change_replicas(self.random.sample(sorted(self.model.brokers), self.random.randint(1, 3)))

    def step_cancel(self):
        self.change_replicas(None)

    def change_replicas(self, replicas):
        key = self.any_partition()
        if key:
            before = self.model.holders()[key]
            self.model.world.reassign(*key, None if replicas is None else tuple(replicas))
            self.model.note_removed_replicas(key, before)

    def step_unregister(self):
        broker = self.any_of(each for each in self.model.brokers.values() if not each.is_running)
        if broker:
            before = self.model.holders()
            if not self.model.world.unregister(broker.id).error_code:
                self.model.note_loss(broker.id, before)
                broker.presents = -1
