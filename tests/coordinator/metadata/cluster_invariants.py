"""Named invariants that hold after every step of a cluster; `Violation` is raised with the name of the broken one."""

from odradek.coordinator.metadata.controller.partition_change import effective_min_insync
from odradek.coordinator.metadata.image.image import NO_LEADER


class Violation(AssertionError):  # noqa: N818 - it is what the test looks for
    def __init__(self, name, text):
        super().__init__(f"{name}: {text}")
        self.name = name


def hold(condition, name, text):
    if not condition:
        raise Violation(name, text)


class Invariants:
    """Compares each image with the previous one."""

    def __init__(self, model):
        self.model = model
        self.before = model.image

    def check(self):
        after = self.model.image
        for topic_id, topic in after.topics_by_id.items():
            old = self.before.topics_by_id.get(topic_id)
            for index, part in enumerate(topic.partitions):
                key = (topic.name, index)
                self.of_state(key, part)
                if old is not None and index < len(old.partitions):
                    self.of_change(key, old.partitions[index], part)
                self.of_records(key, part)
        self.of_brokers(after)
        self.before = after

    def of_state(self, key, part):
        text = f"{key} {part}"
        hold(part.leader == NO_LEADER or part.leader in part.isr, "leader-in-isr", text)
        hold(set(part.isr) <= set(part.replicas) and len(set(part.isr)) == len(part.isr), "isr-of-replicas", text)
        hold(set(part.elr).isdisjoint(part.isr) and set(part.elr) <= set(part.replicas), "elr-beside-isr", text)
        hold(set(part.last_known_elr) <= set(part.replicas), "last-known-of-replicas", text)
        registered = self.model.image.brokers
        hold(all(each in registered and registered[each].is_active for each in part.isr), "isr-is-active", text)

    def of_change(self, key, old, new):
        text = f"{key} {old} -> {new}"
        hold(new.partition_epoch >= old.partition_epoch and new.leader_epoch >= old.leader_epoch, "epochs", text)
        if new != old:
            hold(new.partition_epoch > old.partition_epoch, "epochs", text)
        if new.leader != old.leader:
            hold(new.leader_epoch > old.leader_epoch, "epochs", text)
            clean = {NO_LEADER, *old.isr, *old.elr, *self.model.proposed}
            none_left = not old.isr and set(old.elr) <= self.model.lost_now
            if none_left and new.leader in old.last_known_elr:
                clean.add(new.leader)
                if not self.model.has(new.leader, key):
                    self.model.unclean.add(key)  # its disk is lost as well: its log becomes the partition's
            hold(new.leader in clean or key in self.model.unclean, "clean-leader", text)
        if not set(old.replicas) <= set(new.replicas):
            hold(new.leader_epoch > old.leader_epoch, "epochs", text)
            in_sync = not {*old.isr, *self.model.proposed}.isdisjoint(new.replicas)
            hold(in_sync or not old.isr or key in self.model.unclean, "in-sync-replica-remains", text)

    def of_records(self, key, part):
        """Nothing committed is lost as long as fewer disks are lost than min.insync.replicas allows."""
        committed = self.model.committed.get(key)
        if not committed or key in self.model.unclean:
            return
        holding = {each for each in (*part.isr, *part.elr) if self.model.has(each, key)}
        missing = {*part.isr, *part.elr} - holding
        hold(not missing, "eligible-have-all", f"{key} {part} of {missing}, committed {len(committed)}")
        enough = effective_min_insync(self.model.min_insync[key], part.replicas)
        guaranteed = self.model.guaranteed[key] = min(self.model.guaranteed[key], enough)
        hold(len(holding) >= guaranteed, "enough-have-all", f"{key} {part}: {holding}, guaranteed {guaranteed}")

    def of_brokers(self, after):
        for broker in after.brokers.values():
            old = self.before.brokers.get(broker.id)
            if old is not None and old.incarnation_id != broker.incarnation_id:
                hold(broker.epoch > old.epoch, "epochs", f"{old} -> {broker}")
