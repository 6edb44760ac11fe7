"""`odradek topics`: list, create, describe, alter and delete topics of any Kafka cluster."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from odradek.gateway.cli.assignment import Assignment
from odradek.gateway.cli.client import Admin, Target, TopicPartition, library, open_admin, retrying, topic_partition
from odradek.gateway.cli.errors import CliError, broker_error_text, client_error_text
from odradek.gateway.cli.options import INT16_MAX, INT32_MAX, TopicName, connection_options, json_option
from odradek.gateway.cli.output import counted, emit_json, heading, note, say, table
from odradek.gateway.cli.propagation import await_topics
from odradek.gateway.cli.visible import visible

UNKNOWN_TOPIC = 3
TOPIC_EXISTS = 36


@click.group(epilog="\b\nExamples:\n  odradek topics list\n  odradek topics create hello -p 3 -c retention.ms=3600000")
def topics() -> None:
    """List, create, describe, alter and delete topics."""


@topics.command("list", epilog="\b\nExample:\n  odradek topics list --long --internal")
@click.option("-l", "--long", is_flag=True, help="Show partitions and replicas too.")
@click.option("--internal", is_flag=True, help="Include Kafka's internal topics.")
@json_option
@connection_options
def list_topics(target: Target, *, long: bool, internal: bool, as_json: bool) -> None:
    """Print the names of all topics, one a line."""
    with open_admin(target) as admin:
        found = retrying(target, admin.describe_topics)
    shown = sorted((t for t in found if internal or not t["is_internal"]), key=lambda topic: topic["name"])
    if as_json:
        emit_json([_summary(topic) for topic in shown])
    elif long:
        rows = [(topic["name"], len(topic["partitions"]), _replication(topic)) for topic in shown]
        table(("TOPIC", "PARTITIONS", "REPLICAS"), rows)
    else:
        for topic in shown:
            say(topic["name"])


@topics.command("create", epilog="\b\nExample:\n  odradek topics create hello -p 6 -c cleanup.policy=compact")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "-p", "--partitions", type=click.IntRange(1, INT32_MAX), help="Number of partitions [default: the broker's]."
)
@click.option("-r", "--replication-factor", type=click.IntRange(1, INT16_MAX), help="Replicas [default: the broker's].")
@click.option("-c", "--config", "configs", type=Assignment(), multiple=True, help="A topic config. Repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Do not fail for topics that exist already.")
@click.option("--dry-run", is_flag=True, help="Validate the request in the broker, but create nothing.")
@connection_options
def create(
    target: Target,
    *,
    names: Sequence[str],
    partitions: int | None,
    replication_factor: int | None,
    configs: Sequence[tuple[str, str]],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics."""
    wanted = {
        "num_partitions": partitions or -1,
        "replication_factor": replication_factor or -1,
        "configs": dict(configs),
    }
    with open_admin(target) as admin:
        answer = admin.create_topics(dict.fromkeys(names, wanted), validate_only=dry_run, raise_errors=False)
        if not dry_run:
            await_topics(admin, _done(answer["topics"]), exist=True)
    tolerated = {TOPIC_EXISTS: "exists already"} if if_not_exists else {}
    _report(answer["topics"], "could be created" if dry_run else "created", tolerated)


@topics.command("delete", epilog="\b\nExample:\n  odradek topics delete hello --yes")
@click.argument("names", metavar="TOPIC...", type=TopicName(), nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Do not fail for topics that do not exist.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask on a terminal.")
@connection_options
def delete(target: Target, *, names: Sequence[str], if_exists: bool, yes: bool) -> None:
    """Delete topics with all their records."""
    if not yes and sys.stdin.isatty():
        click.confirm(f"Delete {', '.join(names)} with all records?", abort=True, err=True)
    with open_admin(target) as admin:
        answer = admin.delete_topics(list(names), raise_errors=False)
        await_topics(admin, _done(answer["topics"]), exist=False)
    _report(answer["topics"], "deleted", {UNKNOWN_TOPIC: "does not exist"} if if_exists else {})


@topics.command("alter", epilog="\b\nExample:\n  odradek topics alter hello -p 12 -c retention.ms=60000")
@click.argument("name", metavar="TOPIC", type=TopicName())
@click.option("-p", "--partitions", type=click.IntRange(1, INT32_MAX), help="The new, larger number of partitions.")
@click.option("-c", "--config", "configs", type=Assignment(), multiple=True, help="A config to set. Repeatable.")
@click.option("-d", "--delete-config", "deleted", multiple=True, help="A config to return to its default. Repeatable.")
@connection_options
def alter(
    target: Target,
    *,
    name: str,
    partitions: int | None,
    configs: Sequence[tuple[str, str]],
    deleted: Sequence[str],
) -> None:
    """Add partitions to a topic or change its configs."""
    if not (partitions or configs or deleted):
        raise click.UsageError("nothing to alter: give --partitions, --config or --delete-config")
    with open_admin(target) as admin:
        if deleted:
            _require_configs(target, admin, name, deleted)
        if configs or deleted:
            _alter_configs(admin, name, {**dict.fromkeys(deleted, ("DELETE", None)), **_set(configs)})
        if partitions:
            answer = admin.create_partitions({name: partitions}, raise_errors=False)
            _report([result.to_dict() for result in answer.results], f"has {counted(partitions, 'partition')}", {})


@topics.command("describe", epilog="\b\nExample:\n  odradek topics describe hello --all-configs --json")
@click.argument("names", metavar="TOPIC...", type=TopicName(), nargs=-1, required=True)
@click.option("--all-configs", is_flag=True, help="Also show configs that have their default value.")
@json_option
@connection_options
def describe(target: Target, *, names: Sequence[str], all_configs: bool, as_json: bool) -> None:
    """Show partitions, leaders, replicas, offsets and configs."""
    with open_admin(target) as admin:
        found = describe_existing(target, admin, names)
        offsets = partition_bounds(target, admin, found)
        resources = [library().admin.ConfigResource("topic", topic["name"]) for topic in found]
        filtered = "all" if all_configs else "modified"
        configs = retrying(target, lambda: admin.describe_configs(resources, config_filter=filtered))["topic"]
    descriptions = [_description(topic, offsets, configs[topic["name"]]) for topic in found]
    if as_json:
        emit_json(descriptions)
    else:
        for description in descriptions:
            _show(description)


def describe_existing(target: Target, admin: Admin, names: Sequence[str]) -> list[dict[str, Any]]:
    """Describe topics; raises `CliError` naming the first that does not exist."""
    found = retrying(target, lambda: admin.describe_topics(list(names)))
    for topic in found:
        if topic["error_code"] == UNKNOWN_TOPIC:
            raise CliError(f"topic {topic['name']!r} does not exist")
        if topic["error_code"]:
            raise CliError(f"topic {topic['name']!r}: {broker_error_text(topic['error_code'])}")
    return sorted(found, key=lambda topic: topic["name"])


def partition_bounds(
    target: Target, admin: Admin, found: Sequence[Mapping[str, Any]]
) -> dict[TopicPartition, tuple[int, int]]:
    """First offset and end offset of every partition of the described topics that has a leader."""
    partitions = led_partitions(found)
    spec = library().OffsetSpec
    first = retrying(target, lambda: admin.list_partition_offsets(dict.fromkeys(partitions, spec.EARLIEST)))
    end = retrying(target, lambda: admin.list_partition_offsets(dict.fromkeys(partitions, spec.LATEST)))
    return {partition: (first[partition].offset, end[partition].offset) for partition in partitions}


def led_partitions(found: Sequence[Mapping[str, Any]]) -> list[TopicPartition]:
    """The partitions of the described topics that have a leader; offsets of the others cannot be requested."""
    return [
        topic_partition(topic["name"], partition["partition_index"])
        for topic in found
        for partition in topic["partitions"]
        if partition["leader_id"] >= 0
    ]


def _set(configs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    return {name: ("SET", value) for name, value in configs}


def _require_configs(target: Target, admin: Admin, topic: str, names: Sequence[str]) -> None:
    """Raise CliError for an unknown config name: Kafka ignores its deletion, which would hide a typing error."""
    resource = library().admin.ConfigResource("topic", topic)
    known = retrying(target, lambda: admin.describe_configs([resource], config_filter="all"))["topic"][topic]
    if unknown := [name for name in names if name not in known]:
        raise CliError(f"topic {topic!r} has no config {unknown[0]!r}; it has {', '.join(sorted(known))}")


def _alter_configs(admin: Admin, topic: str, changes: Mapping[str, tuple[str, str | None]]) -> None:
    resource = library().admin.ConfigResource("topic", topic, dict(changes))
    outcome = admin.alter_configs([resource], raise_on_unknown=False)["topic"][topic]
    if outcome != "OK":
        raise CliError(f"topic {topic!r}: {client_error_text(outcome)}")
    note(f"topic {topic!r}: {', '.join(sorted(changes))} changed")


def _done(results: Sequence[Mapping[str, Any]]) -> list[str]:
    return [result["name"] for result in results if result["error_code"] == 0]


def _report(results: Sequence[Mapping[str, Any]], done: str, tolerated: Mapping[int, str]) -> None:
    failures: list[str] = []
    for result in results:
        code, name = result["error_code"], result["name"]
        if code == 0 or code in tolerated:
            note(f"topic {name!r} {tolerated.get(code, done)}")
        else:
            failures.append(f"topic {name!r}: {broker_error_text(code, result.get('error_message'))}")
    if failures:
        raise CliError(*failures)


def _replication(topic: Mapping[str, Any]) -> int:
    return max((len(partition["replica_nodes"]) for partition in topic["partitions"]), default=0)


def _summary(topic: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": topic["name"],
        "internal": topic["is_internal"],
        "partitions": len(topic["partitions"]),
        "replication_factor": _replication(topic),
    }


def _description(
    topic: Mapping[str, Any], offsets: Mapping[TopicPartition, tuple[int, int]], configs: Mapping[str, Any]
) -> dict[str, Any]:
    partitions: list[dict[str, Any]] = []
    for partition in sorted(topic["partitions"], key=lambda each: each["partition_index"]):
        first, end = offsets.get(topic_partition(topic["name"], partition["partition_index"]), (None, None))
        partitions.append(
            {
                "partition": partition["partition_index"],
                "leader": partition["leader_id"] if partition["leader_id"] >= 0 else None,
                "replicas": partition["replica_nodes"],
                "isr": partition["isr_nodes"],
                "start_offset": first,
                "end_offset": end,
            }
        )
    values = {name: config["value"] for name, config in sorted(configs.items())}
    return {**_summary(topic), "topic_id": topic.get("topic_id"), "partitions": partitions, "configs": values}


def _show(description: Mapping[str, Any]) -> None:
    partitions = description["partitions"]
    click.echo(
        f"{heading(description['name'])}: {counted(len(partitions), 'partition')}, "
        f"replication factor {description['replication_factor']}, id {visible(str(description['topic_id']))}"
    )
    for name, value in description["configs"].items():
        say(f"  {name}={value}")
    rows = [
        (p["partition"], p["leader"], _ids(p["replicas"]), _ids(p["isr"]), p["start_offset"], p["end_offset"])
        for p in partitions
    ]
    table(("PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END"), rows)


def _ids(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))
