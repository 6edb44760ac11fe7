"""`odradek pipeline`: the group of the jobs' commands, each imported at first use."""

import importlib
from typing import Any, Final

import click

COMMANDS: Final = {
    "setup": "Fetch what the jobs need, once.",
    "audit": "Explain every offset of a topic; compare it with its copies.",
    "archive": "Keep topics as a table, each record once.",
    "compact": "Merge the small files of a table.",
    "restore": "A table becomes a topic: the same records at the same offsets.",
    "load": "Load a database's table into a topic.",
    "export": "Export a topic to a database's table.",
    "transform": "A topic becomes another by SQL or a Python function.",
}
"""The commands and their summaries; each command's module in odradek.pipeline.cli has its name."""


class PipelineGroup(click.Group):
    """Finds the commands lazily."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of a new user's first steps."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return the command of the same name."""
        if cmd_name not in COMMANDS:
            return None
        command: Any = getattr(importlib.import_module(f"odradek.pipeline.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=PipelineGroup)
def pipeline() -> None:
    """Turn topics into tables and tables into topics, with Spark.

    The jobs work with any Kafka. They need `pip install 'odradek[spark]'` and Java 17 to 21.

    \b
    Example:
      odradek pipeline setup
    """
