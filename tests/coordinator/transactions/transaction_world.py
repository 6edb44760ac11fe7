"""A shard of transactions in its own world, where markers are written when the test requests it."""

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
        """Replay of the whole and of the compacted log gives the live state with the same unfinished transactions."""
        held = self.shard.table
        for log in (self.log, compacted(self.log)):
            rebuilt = self.rebuild(log).table
            assert rebuilt.transactions == held.transactions
            prepared = {name for name, one in held.transactions.items() if one.state in PREPARED}
            assert set(rebuilt.unfinished) == prepared
            assert rebuilt.next_timeout_ms() == held.next_timeout_ms()
            # `held` has given out its unfinished transactions, so those given out and not completed are compared.
            assert prepared == {
                one.transactional_id for one in self.decided if held.transactions[one.transactional_id] == one
            }

    def still(self, decided):
        """The transactional id if its state is still `decided`, else None."""
        name = decided.transactional_id
        return name if self.shard.table.transactions.get(name) == decided else None

    def finish(self):
        """Writes all markers; yields the decision of each completion."""
        decided, self.decided = self.decided, []
        for one in decided:
            outcome = self.shard.complete(one, self.token(), self.now_ms)
            self.decided = [other for other in decided if other is not one and self.still(other)]
            yield self.apply(outcome)
        self.decided = []

    def restart(self):
        """Also drops the tasks that were writing markers."""
        self.decided = []
        return super().restart()
