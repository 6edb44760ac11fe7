"""`odradek cluster`: describe a cluster of any Kafka, elect leaders, move partitions between its brokers."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from odradek.gateway.cli.client import Admin, Target, TopicPartition, open_admin, retrying, topic_partition
from odradek.gateway.cli.errors import CliError, broker_error_text
from odradek.gateway.cli.options import INT32_MAX, INT64_MAX, TopicName, connection_options, json_option
from odradek.gateway.cli.output import counted, emit_json, meter, note, say, table
from odradek.gateway.cli.reassignments import show_under_way, under_way
from odradek.gateway.cli.removal import check_removable, remove_node, serves
from odradek.gateway.cli.replica_plan import Partition, Replicas, TooFewBrokersError, onto, over, without
from odradek.gateway.cli.throttle import brokers_of, remove_throttle, set_throttle

PREFERRED, UNCLEAN = 0, 1
ELECTION_NOT_NEEDED = 84
LOOK_EVERY_S = 0.5

_no_wait = click.option("--no-wait", is_flag=True, help="Do not wait until the replicas have caught up.")
_throttle = click.option(
    "--throttle",
    type=click.IntRange(1, INT64_MAX),
    metavar="BYTES",
    help="Copy at most this many bytes a second from and to each broker.",
)
_topics = click.argument("topics", metavar="[TOPIC]...", type=TopicName(), nargs=-1)


class BrokerIds(click.ParamType[tuple[int, ...]]):
    """`1,2,3`, converted to a tuple of numbers."""

    name = "ids"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Split at the commas; wrong usage if that does not give different numbers."""
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdecimal() and int(part) <= INT32_MAX for part in parts) or len(set(parts)) < len(parts):
            self.fail(f"{value!r} is not a list of broker ids such as 1,2,3", param, ctx)
        return tuple(int(part) for part in parts)


@click.group(epilog="\b\nExamples:\n  odradek cluster describe\n  odradek cluster elect")
def cluster() -> None:
    """Describe the cluster, elect leaders, move partitions between brokers."""


@cluster.command("describe", epilog="\b\nExample:\n  odradek cluster describe --json")
@json_option
@connection_options
def describe(target: Target, *, as_json: bool) -> None:
    """Print brokers with their replicas, controllers, partitions out of sync, and reassignments under way."""
    with open_admin(target) as admin:
        state = _state(admin, target)
    if as_json:
        emit_json(state)
    else:
        _show(state)


def _state(admin: Admin, target: Target) -> dict[str, Any]:
    found = retrying(target, admin.describe_cluster)
    topics = retrying(target, admin.describe_topics)
    quorum = retrying(target, admin.describe_metadata_quorum)
    partitions = [part for topic in topics for part in topic["partitions"]]
    brokers = [
        _broker_row(broker, partitions) for broker in sorted(found["brokers"], key=lambda each: each["broker_id"])
    ]
    metadata = quorum["topics"][0]["partitions"][0]
    return {
        "cluster_id": found["cluster_id"],
        "brokers": brokers,
        "active_controller": metadata["leader_id"],
        "controller_epoch": metadata["leader_epoch"],
        "voters": [voter["replica_id"] for voter in metadata["current_voters"]],
        "partitions": len(partitions),
        "without_leader": sum(part["leader_id"] < 0 for part in partitions),
        "under_replicated": sum(len(part["isr_nodes"]) < len(part["replica_nodes"]) for part in partitions),
        "reassignments": under_way(admin),
    }


def _show(state: Mapping[str, Any]) -> None:
    say(f"cluster {state['cluster_id']}, active controller {state['active_controller']} of {state['voters']}")
    columns = ("BROKER", "ADDRESS", "RACK", "SERVES", "LEADS", "REPLICAS", "OUT OF SYNC")
    table(columns, [[*({**row, "serves": "yes" if row["serves"] else "no"}).values()] for row in state["brokers"]])
    click.echo(
        f"{counted(state['partitions'], 'partition')}, {state['without_leader']} without a leader, "
        f"{state['under_replicated']} under-replicated"
    )
    show_under_way(state["reassignments"])


def _broker_row(broker: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    number = broker["broker_id"]
    held = [part for part in partitions if number in part["replica_nodes"]]
    return {
        "broker": number,
        "address": f"{broker['host']}:{broker['port']}",
        "rack": broker.get("rack"),
        "serves": serves(broker),
        "leads": sum(part["leader_id"] == number for part in partitions),
        "replicas": len(held),
        "out_of_sync": sum(number not in part["isr_nodes"] for part in held),
    }


@cluster.command("elect", epilog="\b\nExamples:\n  odradek cluster elect\n  odradek cluster elect hello --unclean")
@_topics
@click.option(
    "--unclean", is_flag=True, help="Elect a replica that is not in sync where no other is left: may lose records."
)
@connection_options
def elect(target: Target, *, topics: Sequence[str], unclean: bool) -> None:
    """Elect the preferred replica of each partition as leader; of all topics unless some are named."""
    kind = UNCLEAN if unclean else PREFERRED
    with open_admin(target) as admin:
        held = _held(admin, target, topics)
        by_topic: dict[str, list[int]] = {}
        for topic, index in held:
            by_topic.setdefault(topic, []).append(index)
        answered = admin.elect_leaders(kind, by_topic, raise_errors=False) if by_topic else None
    results: Sequence[Any] = () if answered is None else answered.replica_election_results
    refused = [
        f"{result.topic}-{part.partition_id}: {broker_error_text(part.error_code, part.error_message)}"
        for result in results
        for part in result.partition_result
        if part.error_code not in (0, ELECTION_NOT_NEEDED)
    ]
    codes: list[int] = [part.error_code for result in results for part in result.partition_result]
    elected = codes.count(0)
    note(f"{counted(elected, 'leader')} elected, {len(held) - elected - len(refused)} were leaders already")
    if refused:
        raise CliError(*refused)


@cluster.command(
    "reassign",
    epilog="\b\nExamples:\n  odradek cluster reassign hello --brokers 1\n  odradek cluster reassign hello --cancel",
)
@_topics
@click.option("--brokers", type=BrokerIds(), metavar="IDS", help="Spread the replicas evenly over these, as 1,2,3.")
@click.option("--cancel", is_flag=True, help="Cancel the reassignments under way: the replicas stay as they were.")
@_throttle
@_no_wait
@connection_options
def reassign(
    target: Target,
    *,
    topics: Sequence[str],
    brokers: tuple[int, ...] | None,
    cancel: bool,
    throttle: int | None,
    no_wait: bool,
) -> None:
    """Move the partitions of topics to other brokers; of all topics unless some are named."""
    if (brokers is None) is not cancel:
        raise click.UsageError("give either --brokers or --cancel")
    if cancel and throttle is not None:
        raise click.UsageError("--throttle is for what is moved, not for what is cancelled")
    with open_admin(target) as admin:
        if cancel:
            _cancel(admin, target, topics)
            return
        assert brokers is not None
        known = _brokers(admin, target)
        _check_known(brokers, known)
        held = _held(admin, target, topics)
        _move(admin, target, held, _planned(lambda: over(held, brokers, known)), throttle, wait=not no_wait)


@cluster.command("add", epilog="\b\nExample:\n  odradek cluster add 1")
@click.argument("brokers", metavar="ID...", type=click.IntRange(0, INT32_MAX), nargs=-1, required=True)
@_throttle
@_no_wait
@connection_options
def add(target: Target, *, brokers: Sequence[int], throttle: int | None, no_wait: bool) -> None:
    """Move an even share of replicas and leaders to brokers that have joined."""
    with open_admin(target) as admin:
        known = _brokers(admin, target)
        _check_known(brokers, known)
        held = _held(admin, target, ())
        _move(admin, target, held, onto(held, brokers, known), throttle, wait=not no_wait)


@cluster.command("drain", epilog="\b\nExample:\n  odradek cluster drain 3")
@click.argument("brokers", metavar="ID...", type=click.IntRange(0, INT32_MAX), nargs=-1, required=True)
@_throttle
@_no_wait
@connection_options
def drain(target: Target, *, brokers: Sequence[int], throttle: int | None, no_wait: bool) -> None:
    """Move all replicas away from brokers, running or dead, so that they can be taken out of the cluster.

    A partition whose only replica is on a dead broker stays where it is.
    """
    with open_admin(target) as admin:
        known = _brokers(admin, target)
        held = _held(admin, target, ())
        holders = {broker for replicas in held.values() for broker in replicas}
        _check_known([broker for broker in brokers if broker not in holders], known)
        plan = _planned(lambda: without(held, brokers, known))
        stuck = sorted(plan.keys() & _without_leader(admin, target))
        movable = {place: replicas for place, replicas in plan.items() if place not in stuck}
        _move(admin, target, held, movable, throttle, wait=not no_wait)
    if stuck:
        (topic, index), count = stuck[0], counted(len(stuck), "partition")
        raise CliError(f"{count} without a leader cannot be copied and stay, as {topic}-{index}")


@cluster.command("remove", epilog="\b\nExample:\n  odradek cluster remove 9")
@click.argument("nodes", metavar="ID...", type=click.IntRange(0, INT32_MAX), nargs=-1, required=True)
@connection_options
def remove(target: Target, *, nodes: Sequence[int]) -> None:
    """Unregister nodes that were drained and stopped: as brokers, and as voters of the metadata quorum."""
    with open_admin(target) as admin:
        found = retrying(target, admin.describe_cluster)
        topics = retrying(target, admin.describe_topics)
        for node in nodes:
            check_removable(node, found, topics)
        for node in nodes:
            note(f"node {node} removed as a {' and a '.join(remove_node(admin, target, node))}")


def _planned(plan: Callable[[], dict[Partition, list[int]]]) -> dict[Partition, list[int]]:
    try:
        return plan()
    except TooFewBrokersError as error:
        raise CliError(str(error)) from error


def _brokers(admin: Admin, target: Target) -> dict[int, str | None]:
    """The racks of the brokers that are not fenced, by broker id."""
    found = retrying(target, admin.describe_cluster)
    return {broker["broker_id"]: broker.get("rack") for broker in found["brokers"] if serves(broker)}


def _check_known(brokers: Sequence[int], known: Mapping[int, object]) -> None:
    for broker in brokers:
        if broker not in known:
            raise CliError(f"there is no broker {broker} that serves; there are {', '.join(map(str, sorted(known)))}")


def _without_leader(admin: Admin, target: Target) -> set[Partition]:
    return {
        (topic["name"], part["partition_index"])
        for topic in retrying(target, admin.describe_topics)
        for part in topic["partitions"]
        if part["leader_id"] < 0
    }


def _held(admin: Admin, target: Target, topics: Sequence[str]) -> dict[Partition, list[int]]:
    found = retrying(target, lambda: admin.describe_topics(list(topics) or None))
    missing = [topic["name"] for topic in found if topic["error_code"]]
    if missing:
        raise CliError(f"there is no topic {missing[0]!r}")
    return {
        (topic["name"], part["partition_index"]): list(part["replica_nodes"])
        for topic in found
        for part in topic["partitions"]
    }


def _move(
    admin: Admin,
    target: Target,
    held: Replicas,
    plan: Replicas,
    throttle: int | None,
    *,
    wait: bool,
) -> None:
    if not plan:
        note("nothing has to move")
        return
    serving = _brokers(admin, target) if throttle is not None else {}
    limited = [broker for broker in brokers_of(held, plan) if broker in serving]
    if throttle is not None:
        _limit(admin, held, plan, limited, throttle)
    try:
        refused = _refused(admin, {topic_partition(*place): list(replicas) for place, replicas in plan.items()})
        if wait and not refused:
            _await_moved(admin, target, plan)
    except BaseException:  # the controller may have received the request, even if it has not answered
        _note_what_goes_on(throttle)
        raise
    is_over = wait if not refused else len(refused) == len(plan)
    left = remove_throttle(admin, plan, limited) if is_over and throttle is not None else []
    if not is_over:
        _note_what_goes_on(throttle)
    elif not refused:
        note(f"{counted(len(plan), 'partition')} moved")
    _report([*refused, *left])


def _limit(admin: Admin, held: Replicas, plan: Replicas, brokers: Sequence[int], bytes_per_s: int) -> None:
    try:
        set_throttle(admin, held, plan, brokers, bytes_per_s)
    except BaseException:
        for each in remove_throttle(admin, plan, brokers):
            note(each)
        raise


def _note_what_goes_on(throttle: int | None) -> None:
    note("odradek cluster describe shows what is still being moved")
    if throttle is not None:
        note("the throttle stays until odradek cluster reassign --cancel, or a reassignment that waits, removes it")


def _await_moved(admin: Admin, target: Target, plan: Replicas) -> None:
    left = len(plan)
    with meter("moving", len(plan)) as progress:
        while left:
            time.sleep(LOOK_EVERY_S)
            under_way = retrying(target, admin.list_partition_reassignments)
            still = sum((each.topic, each.partition) in plan for each in under_way)
            progress.advance(left - still, 0)
            left = still


def _report(left: Sequence[str]) -> None:
    if left:
        raise CliError(*left)


def _cancel(admin: Admin, target: Target, topics: Sequence[str]) -> None:
    under_way = [
        each for each in retrying(target, admin.list_partition_reassignments) if not topics or each.topic in topics
    ]
    if under_way:
        _report(_refused(admin, dict.fromkeys(under_way)))
    held = _held(admin, target, topics)
    left = remove_throttle(admin, held, sorted(_brokers(admin, target)))
    note(f"{counted(len(under_way), 'reassignment')} cancelled")
    _report(left)


def _refused(admin: Admin, wanted: Mapping[TopicPartition, list[int] | None]) -> list[str]:
    return [
        f"{place.topic}-{place.partition}: {error.__name__}"
        for place, error in admin.alter_partition_reassignments(wanted).items()
        if error is not None
    ]
