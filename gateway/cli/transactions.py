"""`odradek transactions`: transactional ids of any Kafka, a partition's producers, hanging transactions (KIP-664)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from odradek.gateway.cli.client import Admin, Target, TopicPartition, library, open_admin, retrying
from odradek.gateway.cli.errors import CliError, broker_error_text, response_message
from odradek.gateway.cli.group_offsets import TopicChoice
from odradek.gateway.cli.hanging import find_hanging, named_partitions, open_producers
from odradek.gateway.cli.options import (
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    Duration,
    Text,
    connection_options,
    json_option,
    state_option,
)
from odradek.gateway.cli.output import emit_json, note, table

LONGEST_TRANSACTION: Final = "PT15M"
STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead",
)  # fmt: skip
PRODUCER_ID: Final = click.IntRange(0, INT64_MAX)
PRODUCER: Final = ("topic", "partition", "producer_id", "epoch", "coordinator_epoch")


@click.group(
    epilog="\b\nExamples:\n  odradek transactions list --state Ongoing\n  odradek transactions find-hanging\n"
    "  odradek transactions abort payments:3 --start-offset 1200"
)
def transactions() -> None:
    """List and describe transactions, find and abort hanging ones."""


@transactions.command("list", epilog="\b\nExample:\n  odradek transactions list --longer-than PT1M")
@state_option(STATES, "transactions", "Ongoing")
@click.option(
    "--producer-id", "producer_ids", type=PRODUCER_ID, multiple=True, help="Only of this producer id. Repeatable."
)
@click.option("--longer-than", type=Duration(), help="Only transactions that have lasted longer, e.g. PT5M.")
@click.option("--pattern", help="Only ids that this regular expression matches as a whole (from Kafka 4.1 on).")
@json_option
@connection_options
def list_transactions(target: Target, *, as_json: bool, **filters: Any) -> None:  # noqa: ANN401 - click's options
    """Print transactional ids with coordinator, producer id and state."""
    with open_admin(target) as admin:
        found = _listed(target, admin, **filters)
    rows = sorted((each.transactional_id, broker, each.producer_id, each.state.value) for broker, each in found)
    _print(("transactional_id", "coordinator", "producer_id", "state"), rows, as_json=as_json)


def _listed(
    target: Target,
    admin: Admin,
    *,
    states: Sequence[str],
    producer_ids: Sequence[int],
    longer_than: int | None,
    pattern: str | None,
) -> list[tuple[int, Any]]:
    def request() -> dict[int, list[Any]]:
        return admin.list_transactions(
            state_filters=list(states) or None,
            producer_id_filters=list(producer_ids) or None,
            duration_filter_ms=longer_than,
            transactional_id_pattern=pattern,
        )

    try:
        by_broker = retrying(target, request)
    except library().errors.BrokerResponseError as error:
        raise CliError(broker_error_text(error.errno, response_message(str(error)))) from error
    return [(broker, each) for broker, listed in by_broker.items() for each in listed]


@transactions.command("describe", epilog="\b\nExample:\n  odradek transactions describe payments-1 --json")
@click.argument("ids", metavar="TRANSACTIONAL_ID...", type=Text(), nargs=-1, required=True)
@json_option
@connection_options
def describe(target: Target, *, ids: Sequence[str], as_json: bool) -> None:
    """Show the producer and state of a transactional id, and the partitions of its transaction."""
    with open_admin(target) as admin:
        described = retrying(target, lambda: admin.describe_transactions(list(ids)))
    rows = [_described(name, described[name]) for name in ids]
    if as_json:
        emit_json(rows)
        return
    keys = ("transactional_id", "coordinator", "producer_id", "epoch", "state", "timeout_ms", "started", "partitions")
    shown = [[",".join(row[key]) if key == "partitions" else row[key] for key in keys] for row in rows]
    table([_header(key) for key in keys], shown)


def _described(name: str, found: Any) -> dict[str, Any]:  # noqa: ANN401 - kafka-python's tuple
    return {
        "transactional_id": name,
        "coordinator": found.coordinator_id,
        "producer_id": found.producer_id,
        "epoch": found.producer_epoch,
        "state": found.state.value,
        "timeout_ms": found.transaction_timeout_ms,
        "started": _moment(found.transaction_start_time_ms),
        "partitions": [f"{tp.topic}-{tp.partition}" for tp in sorted(found.topic_partitions)],
    }


def _moment(timestamp_ms: int) -> str | None:
    if timestamp_ms < 0:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@transactions.command(
    "describe-producers", epilog="\b\nExample:\n  odradek transactions describe-producers payments:0,3"
)
@click.argument("places", metavar="TOPIC[:PARTITION,...]...", nargs=-1, required=True, type=TopicChoice())
@json_option
@connection_options
def describe_producers(target: Target, *, places: Sequence[tuple[str, tuple[int, ...]]], as_json: bool) -> None:
    """Show the producers of a partition, with the start offset of an open transaction."""
    with open_admin(target) as admin:
        wanted = named_partitions(target, admin, places)
        found = retrying(target, lambda: admin.describe_producers(wanted))
    rows = [_producer(tp, each) for tp in sorted(found) for each in found[tp].active_producers]
    _print((*PRODUCER, "last_sequence", "last_write", "open_since"), rows, as_json=as_json)


def _producer(place: TopicPartition, found: Any) -> Sequence[Any]:  # noqa: ANN401 - kafka-python's tuple
    producer = (*place, found.producer_id, found.producer_epoch, found.coordinator_epoch)
    last_write, since = _moment(found.last_timestamp), _offset(found.current_transaction_start_offset)
    return (*producer, found.last_sequence, last_write, since)


def _offset(offset: int) -> int | None:
    return offset if offset >= 0 else None


@transactions.command("abort", epilog="\b\nExample:\n  odradek transactions abort payments:3 --start-offset 1200")
@click.argument("place", metavar="TOPIC:PARTITION", type=TopicChoice())
@click.option(
    "--start-offset", type=click.IntRange(0, INT64_MAX), help="The transaction's first offset, from find-hanging."
)
@click.option(
    "--producer-id", type=PRODUCER_ID, help="The transaction's producer, with --epoch, instead of --start-offset."
)
@click.option("--epoch", type=click.IntRange(0, INT16_MAX), help="The producer's epoch.")
@click.option(
    "--coordinator-epoch",
    type=click.IntRange(0, INT32_MAX),
    default=0,
    show_default=True,
    help="The coordinator epoch in the marker.",
)
@connection_options
def abort(
    target: Target,
    *,
    place: tuple[str, tuple[int, ...]],
    start_offset: int | None,
    producer_id: int | None,
    epoch: int | None,
    coordinator_epoch: int,
) -> None:
    """Write an abort marker into a partition with a hanging transaction, so that consumers can read on.

    Only for transactions that no coordinator has: all others end by themselves.
    """
    if len(place[1]) != 1:
        raise click.UsageError("name one partition, as TOPIC:PARTITION")
    if (start_offset is None) == (producer_id is None) or (producer_id is None) != (epoch is None):
        raise click.UsageError("give either --start-offset, or --producer-id with --epoch")
    with open_admin(target) as admin:
        [partition] = named_partitions(target, admin, [place])
        if start_offset is not None:
            found = [one for _, one in open_producers(target, admin, [partition]) if one.start_offset == start_offset]
            if not found:
                raise CliError(f"no transaction is open in {place[0]}-{place[1][0]} since offset {start_offset}")
            producer_id, epoch = found[0].producer_id, found[0].epoch
            coordinator_epoch = max(found[0].coordinator_epoch, 0)
        spec = library().admin.AbortTransactionSpec(partition, producer_id, epoch, coordinator_epoch)
        retrying(target, lambda: admin.abort_transaction(spec))
    note(f"the transaction of producer {producer_id} in {place[0]}-{place[1][0]} is aborted")


@transactions.command("find-hanging", epilog="\b\nExample:\n  odradek transactions find-hanging --topic payments")
@click.option(
    "--topic", "places", type=TopicChoice(), multiple=True, help="Only these partitions. Repeatable. Default: all."
)
@click.option(
    "--older-than",
    type=Duration(),
    default=LONGEST_TRANSACTION,
    show_default=True,
    help="Only transactions without a write for this long; use the brokers' transaction.max.timeout.ms.",
)
@json_option
@connection_options
def find_hanging_command(
    target: Target, *, places: Sequence[tuple[str, tuple[int, ...]]], older_than: int, as_json: bool
) -> None:
    """Find hanging transactions: open in a partition, but not in any coordinator."""
    with open_admin(target) as admin:
        now_ms = round(datetime.now(UTC).timestamp() * 1000)  # noqa: TID251 - a command is a client, with its own clock
        found = find_hanging(target, admin, places, now_ms - older_than)
    rows = [
        (*place, one.producer_id, one.epoch, one.coordinator_epoch, one.start_offset, _moment(one.last_write_ms))
        for place, one in found
    ]
    _print((*PRODUCER, "start_offset", "last_write"), rows, as_json=as_json)


def _print(keys: Sequence[str], rows: Sequence[Sequence[Any]], *, as_json: bool) -> None:
    if as_json:
        emit_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        table([_header(key) for key in keys], rows)


def _header(key: str) -> str:
    return key.upper().replace("_", " ")
