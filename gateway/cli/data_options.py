"""Where a broker's data are: the options of all commands that use them, and one rule, that of `odradek serve`.

An option decides, else `ODRADEK_STORAGE`, else `ODRADEK_DATA`, else the same variables in the form of the official
image, else the file of --config (`log.dirs`), else ./odradek-data.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from odradek.gateway.cli.errors import CliError
from odradek.gateway.data_urls import LMDB, directory_of_url, url_of_directory
from odradek.gateway.quick_import import collector_paused

DEFAULT_DATA: Final = "odradek-data"


def data_option(what: str = "Directory of the data") -> Callable[[Any], Any]:
    """`--data DIR`, a Path or None; `what` begins the help text."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        help=f"{what}. [env var: ODRADEK_DATA; default: ./{DEFAULT_DATA}]",
    )


storage_option = click.option(
    "--storage",
    metavar="URL",
    help="The storage for the data, instead of --data: memory://, lmdb:///path, sqlite:///file or "
    "postgresql+psycopg://user@host/database (the last two: pip install 'odradek[sql]'). [env var: ODRADEK_STORAGE]",
)
"""`--storage URL`, a text or None."""

config_option = click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="ODRADEK_CONFIG",
    show_envvar=True,
    help="The broker's configuration: a TOML file, or a Kafka server.properties.",
)
"""`--config FILE`, a Path or None."""


def check_one(data: Path | None, storage: str | None) -> None:
    """Raise wrong usage if both options are given."""
    if data is not None and storage is not None:
        raise click.UsageError("--data and --storage exclude each other")


def overrides_of(data: Path | None, storage: str | None) -> dict[str, str]:
    """The settings that the options stand for."""
    if data is not None:
        return {"odradek.storage": url_of(data)}
    return {} if storage is None else {"odradek.storage": storage}


def storage_of(
    data: Path | None, storage: str | None = None, file: Path | None = None, settings: Mapping[str, str] | None = None
) -> str:
    """The URL of the data that `odradek serve` uses with the same options, variables and folder. Raises CliError."""
    check_one(data, storage)
    with collector_paused():
        from odradek.gateway.config import ConfigError, load_storage_url

    try:
        return load_storage_url(file, {**(settings or {}), **overrides_of(data, storage)})
    except ConfigError as error:
        raise CliError(str(error)) from error


def directory_of(
    data: Path | None, file: Path | None = None, settings: Mapping[str, str] | None = None, *, command: str
) -> Path:
    """As `storage_of`, for a command that works on a data directory only. Raises CliError for data elsewhere."""
    if data is not None:
        return data
    url = storage_of(None, None, file, settings)
    if not url.startswith(LMDB):
        scheme = url.partition(":")[0]
        raise CliError(f"the data are in a {scheme} store, and `{command}` needs a data directory: name it with --data")
    return Path(directory_of_url(url))


def check_there(url: str) -> None:
    """Raise CliError if the data directory of `url` does not exist. Other stores say so themselves."""
    path = Path(directory_of_url(url))
    if url.startswith(LMDB) and not path.is_dir():
        where = "run the command in the folder of `odradek serve`, or name its data directory with --data DIR"
        raise CliError(f"there is no directory {path}: {where}")


def url_of(data: Path) -> str:
    """The storage URL of a data directory."""
    return url_of_directory(data.absolute())
