"""Every command that uses a broker's data finds them by the rule of `odradek serve`."""

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from odradek.gateway.cli.data_options import directory_of, storage_of
from odradek.gateway.cli.errors import CliError
from odradek.gateway.cli.main import cli
from odradek.gateway.cli.serve import load
from odradek.testing import broker

VARIABLES = ({}, {"ODRADEK_DATA": "of-data"}, {"ODRADEK_DATA": ""}, {"KAFKA_LOG_DIRS": "of-kafka"},
             {"ODRADEK_LOG_DIRS": "of-odradek", "KAFKA_LOG_DIRS": "of-kafka"},
             {"ODRADEK_STORAGE": "lmdb:///of/storage", "ODRADEK_DATA": "of-data"})  # fmt: skip
FILES = (None, "log.dirs=/of/file\n", "log.dir=of-file\n", "odradek.storage=sqlite:///of/file.db\n")
HELP = "[env var: ODRADEK_DATA; default: ./odradek-data]"


@pytest.fixture(params=["plain", "a b#c%20"])
def folder(request, tmp_path, monkeypatch) -> Path:
    """The current folder; one has a name that has to be quoted in a URL."""
    for name in [name for name in os.environ if name.startswith(("ODRADEK_", "KAFKA_"))]:
        monkeypatch.delenv(name)
    path = tmp_path / request.param
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.mark.parametrize("content", FILES)
@pytest.mark.parametrize("variables", VARIABLES, ids=" ".join)
def test_the_rule_is_that_of_serve(folder, monkeypatch, variables, content):
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    file = None if content is None else folder / "server.properties"
    if file is not None:
        file.write_text(content or "")
    assert storage_of(None, None, file) == load(file, {}).storage_url


def test_without_options_and_variables_the_directory_is_odradek_data(folder):
    assert directory_of(None, command="odradek recover") == folder / "odradek-data"


def test_a_command_for_directories_refuses_other_stores(folder, monkeypatch):
    monkeypatch.setenv("ODRADEK_STORAGE", "postgresql+psycopg://me:secret@host/shop")
    with pytest.raises(CliError, match="in a postgresql\\+psycopg store, and `odradek recover` needs") as refused:
        directory_of(None, command="odradek recover")
    assert "secret" not in refused.value.format_message()


def test_sql_finds_what_a_broker_in_the_same_folder_writes(folder):
    with broker(folder / "odradek-data") as running:
        running.create_topic("hello")
        found = CliRunner().invoke(cli, ["sql", "SELECT count(*) AS records FROM hello", "--csv"])
    assert found.output == "records\n0\n"


@pytest.mark.parametrize("arguments", [["sql", "SELECT 1"], ["recover"]])
def test_a_folder_without_data(folder, arguments):
    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 1
    assert f"there is no directory {folder / 'odradek-data'}: run the command in the folder" in refused.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["serve", "sql", "recover"])
def test_the_help_of_all_is_the_same(name):
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    [data] = [option for option in command.params if option.name == "data"]
    assert (getattr(data, "help", "") or "").endswith(HELP)
