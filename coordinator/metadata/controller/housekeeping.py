"""What an active controller does by itself: it fences brokers that are silent, and elects leaders at intervals.

One call does one thing, and at most `MAX_CHANGES` partitions of it: what is left stays due, so that the next call goes
on with it. Brokers are fenced one after the other, each on what the fencing before it has left (as in Kafka).

What changes partitions is imported when something is due, which it never is in a cluster of one: a broker starts faster
without.
"""

from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.schema.schema import Message


class Housekeeping:
    """The timers of one controller; soft state, which begins anew with `begin`."""

    def __init__(self) -> None:
        self._balance_ms: int | None = None
        self._unclean_ms: int | None = None

    def begin(self, context: DecisionContext) -> None:
        """The controller has become active: sessions and intervals begin."""
        context.sessions.begin(context.image.brokers, context.now_ms)
        interval = _balance_interval_ms(context)
        self._balance_ms = None if interval is None else context.now_ms + interval
        self._unclean_ms = context.now_ms + context.number("unclean.leader.election.interval.ms")

    def due_ms(self, context: DecisionContext) -> int | None:
        """When `run` is to be called next, None for never; 0 when it should be at once."""
        if context.sessions.elections_left:
            return 0
        brokers = context.image.brokers
        session_ms = context.sessions.due_ms(brokers, context.number("broker.session.timeout.ms"))
        intervals = (self._balance_ms, self._unclean_ms) if len(brokers) > 1 else ()
        return min([each for each in (session_ms, *intervals) if each is not None], default=None)

    def run(self, context: DecisionContext) -> list[Message]:
        """The records of the first thing that is due; none when nothing is, or nothing comes of it."""
        from odradek.coordinator.metadata.controller.broker_changes import elect_leaderless, fence

        timeout_ms = context.number("broker.session.timeout.ms")
        stale = context.sessions.stale(context.image.brokers, timeout_ms, context.now_ms)
        if stale is not None:
            return fence(context, stale).records
        if context.sessions.elections_left:
            elected = elect_leaderless(context)
            context.sessions.elections_left = not elected.complete
            return elected.records
        return self._at_intervals(context)

    def _at_intervals(self, context: DecisionContext) -> list[Message]:
        from odradek.coordinator.metadata.controller.balancing import balance_leaders, elect_uncleanly

        if self._unclean_ms is not None and self._unclean_ms <= context.now_ms:
            elected = elect_uncleanly(context)
            if elected.complete:
                self._unclean_ms = context.now_ms + context.number("unclean.leader.election.interval.ms")
            return elected.records
        if self._balance_ms is not None and self._balance_ms <= context.now_ms:
            balanced = balance_leaders(context)
            if balanced.complete:
                self._balance_ms = context.now_ms + (_balance_interval_ms(context) or 0)
            return balanced.records
        return []


def _balance_interval_ms(context: DecisionContext) -> int | None:
    """How often leaders are balanced, None when they never are."""
    if not context.flag("auto.leader.rebalance.enable"):
        return None
    return 1000 * context.number("leader.imbalance.check.interval.seconds")
