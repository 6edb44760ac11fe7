"""Actions of an active controller without a request: it fences expired brokers, and elects leaders at intervals.

One call does one action, for at most `MAX_CHANGES` partitions: the rest stays due, and the next call continues with it.
Brokers are fenced one after the other, each based on the state after the previous fencing (as in Kafka).

Modules that change partitions are imported only when an action is due, which never happens in a cluster of one: a
broker starts faster without them.
"""

from odradek.coordinator.metadata.controller.replication_settings import fix_min_insync, has_min_insync
from odradek.coordinator.metadata.settings import DecisionContext
from odradek.wire.schema.schema import Message


class Housekeeping:
    """The timers of one controller; soft state, which `begin` resets."""

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
        """Returns when `run` should be called next, None for never; 0 for at once."""
        if context.sessions.elections_left or _lacks_min_insync(context):
            return 0
        brokers = context.image.brokers
        session_ms = context.sessions.due_ms(brokers, context.number("broker.session.timeout.ms"))
        intervals = (self._balance_ms, self._unclean_ms) if len(brokers) > 1 else ()
        return min([each for each in (session_ms, *intervals) if each is not None], default=None)

    def run(self, context: DecisionContext) -> list[Message]:
        """Returns the records of the first action that is due; none if there is none, or it changes nothing."""
        if _lacks_min_insync(context):
            return fix_min_insync(context)
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


def _lacks_min_insync(context: DecisionContext) -> bool:
    """True for a cluster that an earlier version began, which did not write it."""
    return context.image.cluster_id != "" and not has_min_insync(context.image)


def _balance_interval_ms(context: DecisionContext) -> int | None:
    """Returns the interval at which leaders are balanced, None for never."""
    if not context.flag("auto.leader.rebalance.enable"):
        return None
    return 1000 * context.number("leader.imbalance.check.interval.seconds")
