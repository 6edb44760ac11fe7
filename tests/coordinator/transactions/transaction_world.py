"""A stand-in for the runtime around one shard: replays outcomes at once, keeps the log, compares after each step."""

from dataclasses import dataclass, field

from coordinator.shard import Outcome, Reply, ShardRecord, Token
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.records import decode_id, decode_transaction
from coordinator.transactions.replay import check_transition
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.state import PREPARED


def compacted(log):
    """What log compaction would leave: the last record of each key, tombstones gone."""
    last = {}
    for record in log:
        last.pop(record.key, None)
        last[record.key] = record
    return [record for record in last.values() if record.value is not None]


@dataclass
class World:
    """One shard under virtual time. Markers are written only by `finish`."""

    config: TransactionConfig = field(default_factory=TransactionConfig)
    now_ms: int = 1000
    log: list[ShardRecord] = field(default_factory=list)
    level: int = 0
    """The finalized transaction.version."""

    def __post_init__(self):
        self.shard = TransactionShard(self.config, lambda: self.level)
        self.tokens = 0
        self.waiting: set[Token] = set()
        self.decided = []
        self.apply(self.shard.on_loaded(self.now_ms))

    def token(self):
        self.tokens += 1
        self.waiting.add(Token(self.tokens))
        return Token(self.tokens)

    def apply(self, outcome: Outcome) -> tuple[list[ShardRecord], list[Reply]]:
        for record in outcome.records:
            name = decode_id(record.key)
            after = None if record.value is None else decode_transaction(name, record.value)
            check_transition(self.shard._table.transactions.get(name), after)
            self.shard.replay(record, self.now_ms)
            self.log.append(record)
        for reply in outcome.replies:
            assert reply.token in self.waiting, f"{reply} answers nobody, or twice"
            self.waiting.discard(reply.token)
        assert not self.waiting, "every operation answers at once"
        self.decided += self.shard.take_unfinished()
        self.check_replay()
        return list(outcome.records), list(outcome.replies)

    def rebuild(self, log) -> TransactionShard:
        shard = TransactionShard(self.config, lambda: self.level)
        for record in log:
            shard.replay(record, self.now_ms)
        return shard

    def check_replay(self):
        """State equals replay, of the whole log and of the compacted one; both know what is unfinished."""
        held = self.shard._table
        for log in (self.log, compacted(self.log)):
            rebuilt = self.rebuild(log)._table
            assert rebuilt.transactions == held.transactions
            prepared = {name for name, one in held.transactions.items() if one.state in PREPARED}
            assert set(rebuilt.unfinished) == prepared
            assert rebuilt.next_timeout_ms() == held.next_timeout_ms()
            # `held` has given them out; what was given out and not completed is the same.
            assert prepared == {
                one.transactional_id for one in self.decided if held.transactions[one.transactional_id] == one
            }

    def still(self, decided):
        """The id, if what was decided is what it is in now."""
        name = decided.transactional_id
        return name if self.shard._table.transactions.get(name) == decided else None

    def finish(self):
        """All markers are written; yields what each completion decided."""
        decided, self.decided = self.decided, []
        for one in decided:
            outcome = self.shard.complete(one, self.token(), self.now_ms)
            self.decided = [other for other in decided if other is not one and self.still(other)]
            yield self.apply(outcome)
        self.decided = []

    def restart(self):
        """Lose all soft state, and the tasks that were writing markers."""
        self.shard = self.rebuild(compacted(self.log))
        self.waiting.clear()
        self.decided = []
        return self.apply(self.shard.on_loaded(self.now_ms))

    def advance(self, duration_ms):
        """Let time pass, calling on_time whenever it is due; yields (records, replies) of each call."""
        end_ms = self.now_ms + duration_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            yield self.apply(self.shard.on_time(self.now_ms))
        self.now_ms = end_ms
