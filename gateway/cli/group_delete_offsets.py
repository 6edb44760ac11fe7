"""`odradek groups delete-offsets`: delete a group's committed offsets of topics that it no longer reads."""

from collections.abc import Sequence

import click

from odradek.gateway.cli.client import Admin, Target, TopicPartition, open_admin, retrying, topic_partition
from odradek.gateway.cli.errors import CliError, broker_error_text
from odradek.gateway.cli.group_offsets import TopicChoice
from odradek.gateway.cli.options import Text, connection_options
from odradek.gateway.cli.output import note

EPILOG = """\
\b
Examples:
  odradek groups delete-offsets readers --topic hello
  odradek groups delete-offsets readers --topic hello:0,2 --topic world
"""


@click.command("delete-offsets", epilog=EPILOG)
@click.argument("group", type=Text())
@click.option("-t", "--topic", "choices", type=TopicChoice(), multiple=True, required=True, help="Repeatable.")
@connection_options
def delete_offsets(target: Target, *, group: str, choices: Sequence[tuple[str, tuple[int, ...]]]) -> None:
    """Delete a group's committed offsets of topics that no member is subscribed to."""
    with open_admin(target) as admin:
        partitions = _partitions(target, admin, group, choices)
        outcomes = retrying(target, lambda: admin.delete_group_offsets(group, partitions))
    failures = [
        f"{tp.topic}-{tp.partition}: {broker_error_text(error.errno)}"
        for tp, error in sorted(outcomes.items())
        if error.errno
    ]
    for tp, error in sorted(outcomes.items()):
        if not error.errno:
            note(f"{tp.topic}-{tp.partition}: offset of group {group!r} deleted")
    if failures:
        raise CliError(*failures)


def _partitions(
    target: Target, admin: Admin, group: str, choices: Sequence[tuple[str, tuple[int, ...]]]
) -> list[TopicPartition]:
    """The partitions that were named; for a topic named without partitions, those that the group has offsets of."""
    committed = retrying(target, lambda: admin.list_group_offsets(group))[group]
    chosen: list[TopicPartition] = []
    for topic, indexes in choices:
        known = sorted(tp.partition for tp, found in committed.items() if tp.topic == topic and found.offset >= 0)
        if not indexes and not known:
            raise CliError(f"group {group!r} has no offsets of topic {topic!r}")
        chosen += [topic_partition(topic, index) for index in indexes or known]
    return chosen
