"""A fake runtime for one shard: replays outcomes at once, keeps the log, and checks the state after each step."""

from odradek.coordinator.contract import Outcome, Reply, ShardRecord, Token


def compacted(log):
    """What log compaction would leave: the last record of each key, without tombstones."""
    last = {}
    for record in log:
        last.pop(record.key, None)
        last[record.key] = record
    return [record for record in last.values() if record.value is not None]


def as_read(record):
    """The record as it is read from the log."""
    return ShardRecord(record.key, record.value, record.producer_id)


def joined(outcomes):
    """Several outcomes as one, as the runtime writes them if they fit into a batch."""
    records = [record for outcome in outcomes for record in outcome.records]
    return Outcome(records, [reply for outcome in outcomes for reply in outcome.replies])


class ShardWorld:
    """One shard under virtual time. Subclasses define how to `make` a shard, and what to `check`."""

    def __init__(self, now_ms):
        self.now_ms = now_ms
        self.log: list[ShardRecord] = []
        self.tokens = 0
        self.waiting: set[Token] = set()
        self.shard = self.make()
        self.apply(self.shard.on_loaded(now_ms))

    def make(self):
        """Makes a shard that has replayed nothing."""
        raise NotImplementedError

    def check(self):
        """Called after each step; checks at least that the state equals replay."""
        raise NotImplementedError

    def token(self):
        self.tokens += 1
        self.waiting.add(Token(self.tokens))
        return Token(self.tokens)

    def apply(self, outcome: Outcome) -> tuple[list[ShardRecord], list[Reply]]:
        for record in outcome.records:
            self.replay(record)
            self.log.append(record)
        for reply in outcome.replies:
            assert reply.token in self.waiting, f"{reply} answers no request, or one twice"
            self.waiting.discard(reply.token)
        self.check()
        return list(outcome.records), list(outcome.replies)

    def replay(self, record):
        self.shard.replay(record, len(self.log), 0, self.now_ms)

    def rebuild(self, log):
        """A shard built from the written records only, whereas live replay may use the decision's objects."""
        shard = self.make()
        for offset, record in enumerate(log):
            shard.replay(as_read(record), offset, 0, self.now_ms)
        return shard

    def restart(self):
        """Drops all soft state and all waiting requests."""
        self.shard = self.rebuild(compacted(self.log))
        self.waiting.clear()
        return self.apply(self.shard.on_loaded(self.now_ms))

    def advance(self, duration_ms):
        """Lets time pass, calling on_time whenever it is due; yields (records, replies) of each call."""
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            yield self.apply(joined(self.shard.on_time(self.now_ms)))
        self.now_ms = end_ms
