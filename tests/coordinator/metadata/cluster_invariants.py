"""What must hold after every step of a cluster, each by its name; a violation raises `Violation` with that name."""

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
    """Compares each image with the one before it."""

    def __init__(self, model):
        self.model = model
        self.before = model.image

    def check(self):
        after = self.model.image
        for topic_id, topic in after.topics_by_id.items():
            old = self.before.topics_by_id.get(topic_id)
            for index, part in enumerate(topic.partitions):
                place = (topic.name, index)
                self.of_state(place, part)
                if old is not None and index < len(old.partitions):
                    self.of_change(place, old.partitions[index], part)
                self.of_records(place, part)
        self.of_brokers(after)
        self.before = after

    def of_state(self, place, part):
        text = f"{place} {part}"
        hold(part.leader == NO_LEADER or part.leader in part.isr, "leader-in-isr", text)
        hold(set(part.isr) <= set(part.replicas) and len(set(part.isr)) == len(part.isr), "isr-of-replicas", text)
        hold(set(part.elr).isdisjoint(part.isr) and set(part.elr) <= set(part.replicas), "elr-beside-isr", text)
        registered = self.model.image.brokers
        hold(all(each in registered and registered[each].is_active for each in part.isr), "isr-is-active", text)

    def of_change(self, place, old, new):
        text = f"{place} {old} -> {new}"
        hold(new.partition_epoch >= old.partition_epoch and new.leader_epoch >= old.leader_epoch, "epochs", text)
        if new != old:
            hold(new.partition_epoch > old.partition_epoch, "epochs", text)
        if new.leader != old.leader:
            hold(new.leader_epoch > old.leader_epoch, "epochs", text)
            clean = {NO_LEADER, *old.isr, *old.elr, *self.model.proposed}
            none_left = not old.isr and set(old.elr) <= self.model.lost_now
            if none_left and new.leader in old.last_known_elr:
                clean.add(new.leader)
                if not self.model.has(new.leader, place):
                    self.model.unclean.add(place)  # its disk is lost, too: what it has, counts
            hold(new.leader in clean or place in self.model.unclean, "clean-leader", text)
        if not set(old.replicas) <= set(new.replicas):
            hold(new.leader_epoch > old.leader_epoch, "epochs", text)

    def of_records(self, place, part):
        """Of what is committed nothing is lost, as long as no more disks are lost than the setting allows."""
        committed = self.model.committed.get(place)
        if not committed or place in self.model.unclean:
            return
        holding = {each for each in (*part.isr, *part.elr) if self.model.has(each, place)}
        missing = {*part.isr, *part.elr} - holding
        hold(not missing, "eligible-have-all", f"{place} {part} of {missing}, committed {len(committed)}")
        enough = effective_min_insync(self.model.min_insync[place], part.replicas)
        guaranteed = self.model.guaranteed[place] = min(self.model.guaranteed[place], enough)
        hold(len(holding) >= guaranteed, "enough-have-all", f"{place} {part}: {holding}, guaranteed {guaranteed}")

    def of_brokers(self, after):
        for broker in after.brokers.values():
            old = self.before.brokers.get(broker.id)
            if old is not None and old.incarnation_id != broker.incarnation_id:
                hold(broker.epoch > old.epoch, "epochs", f"{old} -> {broker}")
