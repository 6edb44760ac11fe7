"""A shard of transactions in a world of its own, whose markers are written when a test says so."""

from shard_world import ShardWorld, compacted

from odradek.coordinator.transactions.config import TransactionConfig
from odradek.coordinator.transactions.records import decode_id, decode_transaction
from odradek.coordinator.transactions.replay import check_transition
from odradek.coordinator.transactions.shard import TransactionShard
from odradek.coordinator.transactions.state import PREPARED


class World(ShardWorld):
    """A shard of transactions under the finalized transaction.version `level`. Markers are written only by `finish`."""

    def __init__(self, config=None, level=0):
        self.config, self.level = config or TransactionConfig(), level
        self.decided = []
        super().__init__(now_ms=1000)

    def make(self):
        return TransactionShard(self.config, lambda: self.level)

    def replay(self, record):
        name = decode_id(record.key)
        after = None if record.value is None else decode_transaction(name, record.value)
        check_transition(self.shard.table.transactions.get(name), after)
        super().replay(record)

    def check(self):
        assert not self.waiting, "every operation answers at once"
        self.decided += self.shard.take_unfinished()
        self.check_replay()

    def check_replay(self):
        """State equals replay, of the whole log and of the compacted one; both know what is unfinished."""
        held = self.shard.table
        for log in (self.log, compacted(self.log)):
            rebuilt = self.rebuild(log).table
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
        return name if self.shard.table.transactions.get(name) == decided else None

    def finish(self):
        """All markers are written; yields what each completion decided."""
        decided, self.decided = self.decided, []
        for one in decided:
            outcome = self.shard.complete(one, self.token(), self.now_ms)
            self.decided = [other for other in decided if other is not one and self.still(other)]
            yield self.apply(outcome)
        self.decided = []

    def restart(self):
        """The tasks that were writing markers are gone, too."""
        self.decided = []
        return super().restart()
