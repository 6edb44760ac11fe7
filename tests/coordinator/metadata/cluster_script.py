"""The language of `cluster_scripts/*.txt`: requests to one controller, its answers, and the resulting state.

`up 1 2 3` registers and unfences brokers. Partitions are printed when they change, as `t-0 replicas=1,2,3 isr=1,2 elr=3
leader=1 epoch=LEADER/PARTITION`, brokers likewise.
"""

import shlex

from cluster_world import BROKER, TOPIC, ClusterWorld

from odradek.wire.errors import ErrorCode


def numbers(text):
    return tuple(int(each) for each in text.split(",") if each)


def joined(ids):
    return ",".join(map(str, ids))


class Script:
    """Runs the blocks of one file; each command is a method `do_...`."""

    def __init__(self):
        self.world = ClusterWorld()
        self.lines = []
        self.incarnations = 100
        self.shown = {}

    def run(self, commands):
        self.lines = []
        for command in commands:
            name, *arguments = shlex.split(command)
            options = dict(each.split("=", 1) for each in arguments if "=" in each)
            positional = [each for each in arguments if "=" not in each]
            getattr(self, f"do_{name.replace('-', '_')}")(*positional, **options)
            self.show_changes()
            assert self.world.rebuilt().image == self.world.image, "state equals replay"
        return self.lines

    def say(self, code, message=None):
        name = ErrorCode(code).name
        self.lines.append(name if message is None or not code else f"{name}: {message}")

    def show_changes(self):
        now = {}
        for broker in self.world.image.brokers.values():
            state = "fenced" if broker.fenced else "active" if broker.is_active else "stopping"
            now[f"broker {broker.id}"] = f"epoch={broker.epoch} {state}"
        for topic in self.world.image.topics_by_name.values():
            for index, part in enumerate(topic.partitions):
                now[f"{topic.name}-{index}"] = self.described(part)
        self.lines += [f"  {key} {text}" for key, text in now.items() if self.shown.get(key) != text]
        self.lines += [f"  {key} gone" for key in self.shown if key not in now]
        self.shown = now

    def described(self, part):
        parts = [
            ("replicas", part.replicas),
            ("adding", part.adding_replicas),
            ("removing", part.removing_replicas),
            ("isr", part.isr),
            ("elr", part.elr),
            ("known", part.last_known_elr),
        ]
        lists = [f"{name}={joined(ids) or '-'}" for name, ids in parts if ids or name == "isr"]
        state = " RECOVERING" if part.leader_recovery_state else ""
        return f"{' '.join(lists)} leader={part.leader} epoch={part.leader_epoch}/{part.partition_epoch}{state}"

    # Brokers

    def do_up(self, *brokers, rack=None):
        for broker in map(int, brokers):
            self.do_register(broker, rack=rack)
            self.do_beat(broker)

    def do_register(self, broker, *, previous="-1", incarnation=None, rack=None, cluster=None):
        self.incarnations += 1
        epoch = self.world.epoch_of(int(broker)) if previous == "known" else int(previous)
        more = {} if cluster is None else {"cluster_id": cluster}
        answer = self.world.register(
            int(broker), int(incarnation or self.incarnations), previous=epoch, rack=rack, **more
        )
        if answer.error_code:
            self.say(answer.error_code)

    def do_beat(self, broker, *wants, epoch=None, offset=None):
        answer = self.world.heartbeat(
            int(broker),
            epoch=None if epoch is None else int(epoch),
            offset=None if offset is None else int(offset),
            fence="fence" in wants,
            stop="stop" in wants,
        )
        if answer.error_code:
            self.say(answer.error_code)
        elif wants or offset:
            flags = [
                ("caught up", answer.is_caught_up),
                ("fenced", answer.is_fenced),
                ("stop", answer.should_shut_down),
            ]
            self.lines.append("beat: " + ", ".join(name for name, value in flags if value))

    def do_isr(self, partition, members, by=None, **epochs):
        topic, index = partition.rsplit("-", 1)
        part = self.world.partition(topic, int(index))
        states = [tuple(map(int, each.split("@"))) if "@" in each else int(each) for each in members.split(",")]
        given = {name: int(text) for name, text in epochs.items()}
        leader = part.leader if by is None else int(by)
        self.say(self.world.alter_isr(leader, topic, int(index), states, **given).error_code)

    def do_time(self, duration_ms):
        for _ in self.world.advance(int(duration_ms)):
            self.show_changes()

    def do_quiet(self, duration_ms):
        """Time passes, and all brokers that are not fenced send heartbeats."""
        end_ms = self.world.now_ms + int(duration_ms)
        while self.world.now_ms < end_ms:
            for broker in list(self.world.image.brokers.values()):
                if not broker.fenced:
                    self.do_beat(broker.id)
            self.do_time(min(2000, end_ms - self.world.now_ms))

    def do_failover(self):
        self.world.fail_over()

    # Clients

    def do_topic(self, name, **options):
        replicas = [numbers(each) for each in options.pop("replicas", "").split(";") if each]
        sizes = {key: int(options.pop(key)) for key in ("partitions", "factor") if key in options}
        configs = {
            {"min": "min.insync.replicas", "unclean": "unclean.leader.election.enable"}[k]: v
            for k, v in options.items()
        }
        answer = self.world.create(name, replicas=replicas, configs=configs, **sizes)
        if answer.error_code:
            self.say(answer.error_code, answer.error_message)

    def do_config(self, name, key, value=None):
        kind = BROKER if name == "cluster" else TOPIC
        key = {"min": "min.insync.replicas", "unclean": "unclean.leader.election.enable"}[key]
        answer = self.world.set_config(kind, "" if kind == BROKER else name, key, value)
        self.say(answer.error_code, answer.error_message)

    def do_elect(self, kind, partition=None):
        topic, index = partition.rsplit("-", 1) if partition else (None, "0")
        answer = self.world.elect({"preferred": 0, "unclean": 1}[kind], topic, int(index))
        for each in answer.replica_election_results:
            for result in each.partition_result:
                self.lines.append(f"{each.topic}-{result.partition_id} {ErrorCode(result.error_code).name}")

    def do_reassign(self, partition, replicas, *words):
        topic, index = partition.rsplit("-", 1)
        answer = self.world.reassign(topic, int(index), numbers(replicas), keep_factor="keep-factor" in words)
        self.say(answer.error_code, answer.error_message)

    def do_cancel(self, partition):
        topic, index = partition.rsplit("-", 1)
        answer = self.world.reassign(topic, int(index), None)
        self.say(answer.error_code, answer.error_message)

    def do_unregister(self, broker):
        self.say(self.world.unregister(int(broker)).error_code)
