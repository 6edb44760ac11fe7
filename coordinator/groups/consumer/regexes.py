"""Regular expressions that members subscribe with: checked at once, resolved later, for the group as a whole.

Resolving matches the name of every topic, so it is a separate operation, at most every ten seconds: when an expression
has no result yet, when topics were created or deleted since, and every `group.consumer.regex.refresh.interval.ms`.
"""

from typing import Final

from odradek.coordinator.configs.errors import RefusedError
from odradek.coordinator.groups.consumer import records
from odradek.coordinator.groups.consumer.draft import Draft
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.coordinator.groups.consumer.metadata import raise_epoch
from odradek.coordinator.groups.consumer.resolved_regex import ResolvedRegex
from odradek.coordinator.groups.consumer.table import ConsumerTable
from odradek.coordinator.groups.consumer.timer_kinds import ConsumerTimer
from odradek.coordinator.regex import InvalidRegex
from odradek.wire.errors import ErrorCode

RETRY_MS: Final = 20
"""How soon the result of an expression that is still being matched is requested again."""
REGEX_REFRESH_MIN_INTERVAL_MS: Final = 10_000
"""The minimum time between two resolutions of a group's regular expressions; a constant in Kafka, too."""

NOTHING: Final = ResolvedRegex(frozenset(), 0, 0)


def update_regex(
    table: ConsumerTable, draft: Draft, before: ConsumerMember, member: ConsumerMember
) -> tuple[bool, bool]:
    """Check a member's new expression, remove the old one if it is unused, and schedule a resolution if one is due.

    Returns whether the expression changed, and whether the topics of the new one, which may be "", are known already.

    Raises:
        RefusedError: INVALID_REGULAR_EXPRESSION.
    """
    changed, resolved = before.regex != member.regex, False
    if changed:
        resolved = not member.regex or member.regex in draft.group.regexes
        if before.regex and before.regex in draft.group.regexes and not draft.group.regex_users(before.regex):
            draft.write(records.regex_tombstone(draft.group_id, before.regex))
        if member.regex and draft.group.regex_users(member.regex) == 1:
            check_regex(table, member.regex)
            resolved = False
    concerned = member.regex or draft.group.regexes  # false for most groups, whose heartbeats skip the check
    if concerned and _is_due(table, draft.group, draft.now_ms):
        table.arm(ConsumerTimer.REGEX, draft.group_id, "", draft.now_ms)
    return changed, resolved


def check_regex(table: ConsumerTable, regex: str) -> None:
    """Raise RefusedError (INVALID_REGULAR_EXPRESSION) if `regex` is not valid, or takes too much work."""
    try:
        table.resolver.check(regex)
    except InvalidRegex as error:
        message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
        raise RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from error


def _is_due(table: ConsumerTable, group: ConsumerGroup, now_ms: int) -> bool:
    used = group.subscribed_regexes()
    if not used:
        return False
    if not group.regexes:
        return True
    # An age below zero does not count: it was stored before a clock was set back, or by a broker whose clock is ahead.
    age_ms = now_ms - max(resolved.timestamp_ms for resolved in group.regexes.values())
    if 0 <= age_ms <= REGEX_REFRESH_MIN_INTERVAL_MS:
        return False
    stale = any(resolved.version < table.topics_version() for resolved in group.regexes.values())
    too_old = not 0 <= age_ms <= table.config.group_consumer_regex_refresh_interval_ms
    return stale or too_old or any(regex not in group.regexes for regex in used)


def resolve_regexes(table: ConsumerTable, draft: Draft) -> None:
    """Match all expressions in use against all topics; raise the group epoch if the subscribed topics change.

    While one of them is still being matched, nothing changes, and the resolution is scheduled again.
    """
    found = _matched(table, draft)
    if found is None:
        table.arm(ConsumerTimer.REGEX, draft.group_id, "", draft.now_ms + RETRY_MS)
        return
    changed = False
    for regex, topics in found.items():
        known = draft.group.regexes.get(regex, NOTHING)
        resolved = ResolvedRegex(topics, table.topics_version(), draft.now_ms)
        draft.write(records.regex_record(draft.group_id, regex, resolved))
        changed |= known.topics != resolved.topics
    raise_epoch(table, draft, forced=changed)


def _matched(table: ConsumerTable, draft: Draft) -> dict[str, frozenset[str]] | None:
    """Returns the topics of every expression in use; None while one of them is still being matched.

    The results that are there are kept until then: the resolver may keep fewer than a group has expressions.
    """
    existing = table.image().topics_by_name
    matched_against, known = table.matched.pop(draft.group_id, (existing, {}))
    if matched_against is not existing:
        known = {}
    used, found = draft.group.subscribed_regexes(), dict[str, frozenset[str]]()
    for regex in used:
        topics = known[regex] if regex in known else _topics(table, draft, regex)
        if topics is not None:
            found[regex] = topics
    if len(found) == len(used):
        return found
    table.matched[draft.group_id] = (existing, found)
    return None


def _topics(table: ConsumerTable, draft: Draft, regex: str) -> frozenset[str] | None:
    """Returns the matching topics; None while being matched; the last result if matching takes too many steps."""
    try:
        return table.resolver.topics(regex, table.image())
    except InvalidRegex:
        return draft.group.regexes.get(regex, NOTHING).topics
