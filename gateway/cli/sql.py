"""`odradek sql`: runs a statement over the topics of a store, with or without a running broker."""

import base64
import contextlib
import csv
import json
import sys
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from odradek.gateway.cli.data_options import check_there, config_option, data_option, storage_of, storage_option
from odradek.gateway.cli.errors import CliError
from odradek.gateway.cli.output import counted, table
from odradek.gateway.cli.visible import visible, visible_json

if TYPE_CHECKING:
    from odradek.gateway.sql.results import Result, SqlSession

ROWS_AT_ONCE: Final = 1000
"""The number of rows of a table that are aligned together; all other formats are written row by row."""

EPILOG = """\
\b
Each topic is a table with the columns partition, offset, timestamp (milliseconds), key, value and headers (JSON). It
contains only committed records. Names such as my-topic are written "my-topic". Functions:
  as_text(value)      bytes as text, NULL where they are not UTF-8
  as_json(value)      the text where it is JSON, else NULL: as_json(value) ->> 'carrier'
  as_time(timestamp)  date and time, in UTC

\b
Examples, over a topic such as `echo '{"carrier": "UA"}' | odradek produce flights` makes it:
  odradek sql "SELECT as_text(value) FROM flights WHERE partition = 0 AND offset >= 0 LIMIT 10"
  odradek sql "SELECT as_json(value) ->> 'carrier' AS carrier, count(*) FROM flights GROUP BY 1" --json
  odradek sql "SELECT partition, max(as_time(timestamp)) FROM flights GROUP BY 1"

\b
Conditions on partition, offset and timestamp limit what is read; others are checked on every record. A join of two
topics is faster with WITH x AS MATERIALIZED (SELECT ...), for which SQLite makes an index. With a store in PostgreSQL,
the statement runs in PostgreSQL, in its dialect, over the topics that have odradek.sql.columns=true.

\b
Exit codes: 0 done; 1 not possible (one line on stderr says why); 2 wrong usage.
"""


@click.command("sql", epilog=EPILOG)
@click.argument("statement", required=False)
@data_option()
@storage_option
@config_option
@click.option("--json", "form", flag_value="json", help="Print a JSON array of objects.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV with a line of names.")
@click.option(
    "--backfill",
    metavar="TOPIC",
    help="Write the missing rows of a topic with odradek.sql.columns=true; a broker may be running.",
)
def sql(
    *,
    statement: str | None,
    data: Path | None,
    storage: str | None,
    file: Path | None,
    form: str | None,
    backfill: str | None,
) -> None:
    """Run a SQL statement over topics, whether a broker is running or not."""
    from odradek.gateway.sql.results import SqlError
    from odradek.storage_backends.interface import StoreError
    from odradek.storage_backends.opener import StoreUrlError

    if (statement is None) == (backfill is None):
        raise click.UsageError("give either a statement or --backfill TOPIC")
    url = storage_of(data, storage, file)
    check_there(url)
    try:
        if backfill is not None:
            click.echo(f"Filled in {counted(_fill(url, backfill), 'record')}.")
        elif statement is not None:
            with _session(url) as session:
                _print(session.run(statement), form)
    except (SqlError, StoreError, StoreUrlError) as error:
        raise CliError(str(error)) from error


def _session(url: str) -> "SqlSession":
    from odradek.storage_backends.opener import open_beside

    logs = open_beside(url)
    try:
        if url.startswith("postgresql"):
            from odradek.gateway.sql.postgres import PostgresSession

            logs.close()
            return PostgresSession(url)
        from odradek.gateway.sql.sqlite import SqliteSession
    except ModuleNotFoundError as error:
        raise CliError(f"`odradek sql` needs {error.name}: pip install 'odradek[sql]'") from error
    return SqliteSession(logs)


def _fill(url: str, topic: str) -> int:
    from odradek.gateway.sql.backfill import backfill
    from odradek.storage_backends.opener import open_backfill, open_beside

    with contextlib.closing(open_backfill(url)) as rows, contextlib.closing(open_beside(url)) as logs:
        return backfill(logs, rows, topic)


def _print(result: "Result", form: str | None) -> None:
    if form == "json":
        _print_json(result)
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.columns)
        shown = _shown_on_terminal if sys.stdout.isatty() else _shown
        writer.writerows([shown(cell) for cell in row] for row in result.rows)
    elif result.columns:
        _print_table(result)


def _print_table(result: "Result") -> None:
    rows = iter(result.rows)
    first = True
    while (some := list(islice(rows, ROWS_AT_ONCE))) or first:
        table(result.columns, [[_shown(cell) for cell in row] for row in some])
        first = False


def _print_json(result: "Result") -> None:
    before = "[\n  "
    for row in result.rows:
        named: dict[str, object] = {}
        for name, cell in zip(result.columns, row, strict=True):
            named |= _as_json(name, cell)
        click.echo(before + visible_json(json.dumps(named, ensure_ascii=False, default=_plain)), nl=False)
        before = ",\n  "
    click.echo("[]" if before.startswith("[") else "\n]")


def _plain(cell: object) -> object:
    """PostgreSQL's numbers and times as JSON values."""
    if isinstance(cell, Decimal):
        return int(cell) if cell == cell.to_integral_value() else float(cell)
    return str(cell)


def _as_json(name: str, cell: object) -> dict[str, object]:
    """As in `odradek consume --format json`: bytes are text, or base64 under the name `NAME_base64`."""
    if not isinstance(cell, bytes):
        return {name: cell}
    try:
        return {name: cell.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(cell).decode()}


def _shown_on_terminal(cell: object) -> object:
    shown = _shown(cell)
    return visible(shown) if isinstance(shown, str) else shown


def _shown(cell: object) -> object:
    """A cell of a table or of CSV: bytes are shown as text, or as hexadecimal after `\\x` if they are not UTF-8."""
    if not isinstance(cell, bytes):
        return cell
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return f"\\x{cell.hex()}"
