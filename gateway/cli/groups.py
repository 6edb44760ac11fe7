"""`odradek groups`: list, describe and delete consumer groups of any Kafka, reset and delete their offsets."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from odradek.gateway.cli.client import Admin, Target, TopicPartition, library, open_admin, retrying, topic_partition
from odradek.gateway.cli.errors import CliError, client_error_text
from odradek.gateway.cli.group_delete_offsets import delete_offsets
from odradek.gateway.cli.group_offsets import reset_offsets
from odradek.gateway.cli.options import OneOf, Text, connection_options, json_option, state_option
from odradek.gateway.cli.output import counted, emit_json, heading, note, table
from odradek.gateway.cli.topics import led_partitions
from odradek.gateway.cli.visible import visible


@click.group(
    epilog="\b\nExamples:\n  odradek groups describe readers\n"
    "  odradek groups reset-offsets readers --topic hello --to-earliest --execute"
)
def groups() -> None:
    """List, describe and delete consumer groups, reset their offsets."""


groups.add_command(reset_offsets)
groups.add_command(delete_offsets)

STATES = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling", "NotReady",
)  # fmt: skip
TYPES = ("classic", "consumer", "share", "streams")

PARTS = ("state", "members", "offsets")
"""The parts of a group's description that `describe` prints; all of them if no option selects one."""


@groups.command("list", epilog="\b\nExample:\n  odradek groups list --state Stable")
@state_option(STATES, "groups", "Stable")
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    type=OneOf(*TYPES),
    multiple=True,
    help="Only groups of this type: classic or consumer. Repeatable.",
)
@json_option
@connection_options
def list_groups(target: Target, *, states: Sequence[str], types: Sequence[str], as_json: bool) -> None:
    """Print all groups with type and state."""
    with open_admin(target) as admin:
        found = retrying(
            target,
            lambda: admin.list_groups(states_filter=list(states) or None, types_filter=list(types) or None),
        )
    found.sort(key=lambda group: group["group_id"])
    if as_json:
        emit_json(found)
        return
    rows = [(g["group_id"], g.get("group_type"), g.get("group_state"), g["protocol_type"]) for g in found]
    table(("GROUP", "TYPE", "STATE", "PROTOCOL"), rows)


@groups.command("describe", epilog="\b\nExample:\n  odradek groups describe readers --json")
@click.argument("names", metavar="GROUP...", type=Text(), nargs=-1)
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option("--state", "parts", flag_value="state", multiple=True, help="Only state and lag, in one line.")
@click.option("--members", "parts", flag_value="members", multiple=True, help="Only the members.")
@click.option("--offsets", "parts", flag_value="offsets", multiple=True, help="Only the offsets.")
@json_option
@connection_options
def describe(target: Target, *, names: Sequence[str], all_groups: bool, parts: Sequence[str], as_json: bool) -> None:
    """Show a group's state, its members, and the lag of each partition."""
    with open_admin(target) as admin:
        descriptions = [_describe(target, admin, name) for name in _chosen(target, admin, names, all_groups)]
    if as_json:
        emit_json(descriptions)
    else:
        for description in descriptions:
            _show(description, parts or PARTS)


@groups.command("delete", epilog="\b\nExample:\n  odradek groups delete readers")
@click.argument("names", metavar="GROUP...", type=Text(), nargs=-1)
@click.option("--all-groups", is_flag=True, help="All groups.")
@connection_options
def delete(target: Target, *, names: Sequence[str], all_groups: bool) -> None:
    """Delete groups without members, and their offsets."""
    with open_admin(target) as admin:
        chosen = _chosen(target, admin, names, all_groups)
        outcomes = retrying(target, lambda: admin.delete_groups(chosen)) if chosen else {}
    failures = [
        f"group {name!r}: {client_error_text(outcome)}" for name, outcome in sorted(outcomes.items()) if outcome != "OK"
    ]
    for name, outcome in sorted(outcomes.items()):
        if outcome == "OK":
            note(f"group {name!r} deleted")
    if failures:
        raise CliError(*failures)


def _chosen(target: Target, admin: Admin, names: Sequence[str], all_groups: bool) -> list[str]:
    if bool(names) == all_groups:
        raise click.UsageError("name groups, or give --all-groups")
    if not all_groups:
        return list(names)
    return sorted(group["group_id"] for group in retrying(target, admin.list_groups))


def _describe(target: Target, admin: Admin, name: str) -> dict[str, Any]:
    group = retrying(target, lambda: admin.describe_groups([name]))[name]
    committed = {tp: o.offset for tp, o in retrying(target, lambda: admin.list_group_offsets(name))[name].items()}
    state = group["group_state"]
    if group["error"] or state == "Dead":
        state = _state_of_other_kind(target, admin, name)
        if state is None and not committed:
            raise CliError(f"group {name!r} does not exist")
    owners = _owners(group["members"])
    ends = _end_offsets(target, admin, {*committed, *owners})
    return {
        "group": name,
        "state": state or "Dead",
        "assignor": group["protocol_data"] or None,
        "members": [_member(member) for member in group["members"]],
        "offsets": [_lag(tp, committed.get(tp), ends.get(tp), owners.get(tp)) for tp in sorted({*committed, *owners})],
    }


def _state_of_other_kind(target: Target, admin: Admin, name: str) -> str | None:
    """The state of a group of the consumer protocol (KIP-848), which kafka-python cannot describe."""
    listed = retrying(target, admin.list_groups)
    return next((group["group_state"] for group in listed if group["group_id"] == name), None)


def _end_offsets(target: Target, admin: Admin, wanted: set[TopicPartition]) -> dict[TopicPartition, int]:
    # A group may have offsets of deleted topics and of partitions without a leader, whose end offset is not known.
    names = sorted({tp.topic for tp in wanted})
    described = retrying(target, lambda: admin.describe_topics(names)) if names else []
    asked = dict.fromkeys([tp for tp in led_partitions(described) if tp in wanted], library().OffsetSpec.LATEST)
    return {tp: found.offset for tp, found in retrying(target, lambda: admin.list_partition_offsets(asked)).items()}


def _assigned(member: Mapping[str, Any]) -> list[TopicPartition]:
    assignment: Any = member["member_assignment"]
    if not isinstance(assignment, dict):  # empty while the group rebalances, bytes in other protocols
        return []
    topics = cast("list[dict[str, Any]]", assignment["assigned_partitions"])
    return [topic_partition(each["topic"], index) for each in topics for index in sorted(each["partitions"])]


def _owners(members: Sequence[Mapping[str, Any]]) -> dict[TopicPartition, str]:
    return {tp: member["member_id"] for member in members for tp in _assigned(member)}


def _member(member: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "member": member["member_id"],
        "instance": member.get("group_instance_id"),
        "client": member["client_id"],
        "host": member["client_host"],
        "partitions": [f"{tp.topic}-{tp.partition}" for tp in _assigned(member)],
    }


def _lag(tp: TopicPartition, committed: int | None, end: int | None, owner: str | None) -> dict[str, Any]:
    known = committed is not None and committed >= 0
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "committed": committed if known else None,
        "end": end,
        "lag": end - committed if known and end is not None and committed is not None else None,
        "member": owner,
    }


def _show(description: Mapping[str, Any], parts: Sequence[str]) -> None:
    members, offsets = description["members"], description["offsets"]
    known = [offset["lag"] for offset in offsets if offset["lag"] is not None]
    lag = f"lag {sum(known):,}" if known or not offsets else "lag unknown"
    if known and len(known) < len(offsets):
        lag += f" in {len(known)} of {counted(len(offsets), 'partition')}"
    assignor = f", assignor {description['assignor']}" if description["assignor"] else ""
    state = f"{description['state']}{assignor}, {counted(len(members), 'member')}, {lag}"
    click.echo(f"{heading(description['group'])}: {visible(state)}")
    if members and "members" in parts:
        rows = [(m["member"], m["instance"], m["client"], m["host"], ",".join(m["partitions"])) for m in members]
        table(("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"), rows)
    if offsets and "offsets" in parts:
        rows = [(o["topic"], o["partition"], o["committed"], o["end"], o["lag"], o["member"]) for o in offsets]
        table(("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"), rows)
