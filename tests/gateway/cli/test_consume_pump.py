"""The loop of `odradek consume` over a reader in memory, for what no real group does at a chosen moment."""

import io

from odradek.gateway.cli.clients.interface import Access, TopicPartition
from odradek.gateway.cli.consume import GroupReading, Pump
from odradek.gateway.cli.output import meter
from odradek.gateway.cli.signals import Stop
from odradek.gateway.cli.stdout_sink import Sink

OLD, NEW = TopicPartition("t", 0), TopicPartition("t", 1)


class Reader:
    """A group's reader: a record is its offset. `polls` are the results of `poll`, one after the other."""

    access = Access(*[int] * 7)

    def __init__(self, *polls):
        self._polls, self._positions = list(polls), {}
        self.paused, self.commits = set(), []

    def subscribe(self, topic, releasing):
        pass

    def is_settled(self):
        return True

    def assignment(self):
        return [OLD, NEW]

    def poll(self, timeout_ms, max_records):
        found = self._polls.pop(0)
        self._positions |= {partition: records[-1] + 1 for partition, records in found.items()}
        return found

    def position(self, partition, timeout_ms):
        return self._positions.get(partition)

    def pause(self, partitions):
        self.paused |= set(partitions)

    def commit(self, offsets):
        self.commits.append(dict(offsets))


def test_without_follow_a_partition_that_is_new_since_the_start_is_not_read():
    reader, printed = Reader({OLD: [0, 1], NEW: [0]}, {OLD: [2, 3], NEW: [1]}), io.BytesIO()
    with meter("", None, shown=False) as progress:
        sink = Sink(printed, None, progress, Stop())
        Pump(GroupReading(reader, "t", 10**6), sink, lambda records: [b"%d\n" % each for each in records], Stop()).run(
            {OLD: 3}
        )
    assert printed.getvalue() == b"0\n1\n2\n"
    assert reader.paused == {OLD, NEW}
    assert reader.commits == [{OLD: 3}]
