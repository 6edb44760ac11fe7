"""`odradek groups reset-offsets`: prints the plan, and changes offsets only with --execute, as Kafka's own tool."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from odradek.gateway.cli.client import Admin, Target, TopicPartition, library, open_admin, retrying, topic_partition
from odradek.gateway.cli.errors import CliError, broker_error_text
from odradek.gateway.cli.offset_csv import OffsetFile, write_offsets
from odradek.gateway.cli.offset_plan import Goal, Situation, Step, plan
from odradek.gateway.cli.options import (
    INT32_MAX,
    INT64_MAX,
    Duration,
    Moment,
    Text,
    connection_options,
    is_topic_name,
    json_option,
)
from odradek.gateway.cli.output import counted, emit_json, note, table
from odradek.gateway.cli.topics import describe_existing, partition_bounds

EPILOG = """\
\b
Without --execute nothing is changed and the plan is printed. The group must have no running members.

\b
Examples:
  odradek groups reset-offsets readers --topic hello --to-earliest
  odradek groups reset-offsets readers --topic hello:0,2 --to-datetime 2013-07-01T00:00:00Z --execute
  odradek groups reset-offsets readers --all-topics --by-duration PT1H --execute
  odradek groups reset-offsets readers --topic hello --shift-by -10 --execute
  odradek groups reset-offsets readers --all-topics --to-current --export > offsets.csv
  odradek groups reset-offsets readers --from-file offsets.csv --execute
"""


class TopicChoice(click.ParamType[tuple[str, tuple[int, ...]]]):
    """`TOPIC` or `TOPIC:0,1`, converted to the name and the partitions; no partitions means all."""

    name = "topic[:partition,...]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        """Split at the colon; wrong usage if the value has another form."""
        name, colon, partitions = str(value).partition(":")
        indexes = partitions.split(",") if colon else []
        if not is_topic_name(name) or not all(part.isdecimal() and int(part) <= INT32_MAX for part in indexes):
            self.fail(f"{value!r} is not TOPIC or TOPIC:0,1,2", param, ctx)
        return name, tuple(map(int, indexes))


@click.command("reset-offsets", epilog=EPILOG)
@click.argument("group", type=Text())
@click.option("-t", "--topic", "choices", type=TopicChoice(), multiple=True, help="A topic to reset. Repeatable.")
@click.option("--all-topics", is_flag=True, help="All topics that the group has offsets of.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-current", is_flag=True, help="To the committed offset, moved into the range of existing offsets.")
@click.option("--to-offset", type=click.IntRange(0, INT64_MAX), help="To this offset.")
@click.option("--to-datetime", type=Moment(), help="To the first record at or after this time.")
@click.option("--by-duration", type=Duration(negative=True), help="To the first record of the last PT1H, P1D, ...")
@click.option(
    "--shift-by", type=click.IntRange(-INT64_MAX, INT64_MAX), help="By this number of offsets; negative moves back."
)
@click.option("--from-file", "to_offsets", type=OffsetFile(), help="To the TOPIC,PARTITION,OFFSET lines of a file.")
@click.option("--export", is_flag=True, help="Print the plan as such lines.")
@click.option("--execute", is_flag=True, help="Change the offsets.")
@click.option("--dry-run", is_flag=True, help="Only print the plan [the default].")
@json_option
@connection_options
def reset_offsets(
    target: Target,
    *,
    group: str,
    choices: Sequence[tuple[str, tuple[int, ...]]],
    all_topics: bool,
    execute: bool,
    dry_run: bool,
    export: bool,
    as_json: bool,
    **goals: Any,  # noqa: ANN401 - eight options, of which one is given
) -> None:
    """Move a group's committed offsets."""
    if (goals["to_offsets"] is not None) + bool(choices) + all_topics != 1:
        raise click.UsageError("give one of --topic, --all-topics and --from-file")
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other")
    goal = _goal(goals)
    with open_admin(target) as admin:
        _require_inactive(target, admin, group)
        steps = plan(goal, _situations(target, admin, group, choices or _of_file(goal), goal))
        if execute:
            _execute(target, admin, group, steps)
    if export:
        write_offsets(sys.stdout, [(step.partition, step.target) for step in steps])
    else:
        _print(steps, as_json=as_json)
    if not execute:
        note("dry run, nothing changed; add --execute to do it")


def _of_file(goal: Goal) -> Sequence[tuple[str, tuple[int, ...]]]:
    topics: dict[str, list[int]] = {}
    for tp in goal.to_offsets or ():
        topics.setdefault(tp.topic, []).append(tp.partition)
    return [(topic, tuple(sorted(indexes))) for topic, indexes in topics.items()]


def _goal(goals: Mapping[str, Any]) -> Goal:
    given = {name: value for name, value in goals.items() if value is not None and value is not False}
    if len(given) != 1:
        parameters = click.get_current_context().command.params
        names = ", ".join(parameter.opts[0] for parameter in parameters if parameter.name in goals)
        raise click.UsageError(f"give exactly one of {names}")
    if "to_datetime" in given:
        return Goal(to_time_ms=given["to_datetime"])
    if "by_duration" in given:
        now_ms = round(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - a command is a client, with its own clock
        return Goal(to_time_ms=now_ms - given["by_duration"])
    return Goal(**given)


def _require_inactive(target: Target, admin: Admin, group: str) -> None:
    description = retrying(target, lambda: admin.describe_groups([group]))[group]
    if description["members"]:
        raise CliError(
            f"group {group!r} is {description['group_state']} with {counted(len(description['members']), 'member')}; "
            "offsets can be reset only while no member runs"
        )


def _situations(
    target: Target, admin: Admin, group: str, choices: Sequence[tuple[str, tuple[int, ...]]], goal: Goal
) -> dict[TopicPartition, Situation]:
    committed = {
        tp: found.offset
        for tp, found in retrying(target, lambda: admin.list_group_offsets(group))[group].items()
        if found.offset >= 0
    }
    wanted = choices or [(topic, ()) for topic in sorted({tp.topic for tp in committed})]
    if not wanted:
        raise CliError(f"group {group!r} has no committed offsets; name topics with --topic")
    described = describe_existing(target, admin, [topic for topic, _ in wanted])
    chosen = _chosen(wanted, described)
    bounds = partition_bounds(target, admin, described)
    if without := [tp for tp in chosen if tp not in bounds]:
        raise CliError(
            f"{without[0].topic}-{without[0].partition} has no leader, so that its offsets are not known; name the "
            "partitions that have one with --topic TOPIC:0,1"
        )
    at_time = _at_time(target, admin, chosen, goal)
    return {tp: Situation(*bounds[tp], committed.get(tp), at_time.get(tp)) for tp in chosen}


def _chosen(
    wanted: Sequence[tuple[str, tuple[int, ...]]], described: Sequence[Mapping[str, Any]]
) -> list[TopicPartition]:
    there = {topic["name"]: sorted(part["partition_index"] for part in topic["partitions"]) for topic in described}
    for topic, indexes in wanted:
        if missing := [index for index in indexes if index not in there[topic]]:
            raise CliError(f"topic {topic!r} has no partition {missing[0]}")
    return [topic_partition(topic, index) for topic, indexes in wanted for index in indexes or there[topic]]


def _at_time(target: Target, admin: Admin, chosen: Sequence[TopicPartition], goal: Goal) -> dict[TopicPartition, int]:
    if goal.to_time_ms is None:
        return {}
    asked = dict.fromkeys(chosen, max(goal.to_time_ms, 0))
    found = retrying(target, lambda: admin.list_partition_offsets(asked))
    return {tp: answer.offset for tp, answer in found.items() if answer.offset >= 0}


def _execute(target: Target, admin: Admin, group: str, steps: Sequence[Step]) -> None:
    committed = library().OffsetAndMetadata
    offsets = {step.partition: committed(step.target, "", -1) for step in steps}
    outcomes = retrying(target, lambda: admin.alter_group_offsets(group, offsets))
    for tp, error in sorted(outcomes.items()):
        if error.errno:
            raise CliError(f"{tp.topic}-{tp.partition}: {broker_error_text(error.errno)}")


def _print(steps: Sequence[Step], *, as_json: bool) -> None:
    rows = [(step.partition.topic, step.partition.partition, step.committed, step.target) for step in steps]
    if as_json:
        emit_json([dict(zip(("topic", "partition", "committed", "new_offset"), row, strict=True)) for row in rows])
    else:
        table(("TOPIC", "PARTITION", "COMMITTED", "NEW-OFFSET"), rows)
