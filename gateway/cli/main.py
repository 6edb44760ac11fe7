"""The `odradek` command. Each group of commands is imported only when it is used, so that start-up stays quick."""

import importlib
import io
import os
import sys
from typing import Any, Final

import click

from odradek.gateway.cli.errors import EXIT_CODES, INTERRUPTED, READER_GONE, CliError, explained
from odradek.gateway.cli.process_title import hide_secrets

VERSION: Final = "0.1.0"
"""The version in pyproject.toml. Reading it from the installed distribution would take 5% of a broker's start time."""

COMMANDS = {
    "demo": "See it work in 20 seconds: two crashes, nothing lost.",
    "serve": "Run a broker.",
    "topics": "List, create, describe, alter and delete topics.",
    "produce": "Send the lines of stdin to a topic.",
    "consume": "Print a topic's records.",
    "configs": "List, describe and alter settings.",
    "groups": "List, describe and delete consumer groups, reset their offsets.",
    "transactions": "List and describe transactions, find and abort hanging ones.",
    "sql": "Query topics with SQL, with or without a running broker.",
    "pipeline": "Turn topics into tables and tables into topics, with Spark.",
    "mirror": "Copy topics from one Kafka to another, each record once.",
    "recover": "Rebuild a lost metadata log; adopt or delete stray logs.",
    "cluster": "Describe the cluster, elect leaders, move replicas.",
    "simulate": "Simulate clusters under faults; a seed repeats its run.",
    "features": "Show the levels of the cluster's features, raise and lower them.",
    "completion": "Print the script for shell completion.",
}
"""The commands and their summaries. The module of a command has the command's name."""

ELSEWHERE = {
    "demo": "odradek.pipeline.demo.command",
    "pipeline": "odradek.pipeline.cli.pipeline",
    "mirror": "odradek.pipeline.cli.mirror",
    "simulate": "odradek.gateway.testing.simulation.command",
}
"""The modules of commands in layers above this package. They must not be imported here, so they are loaded by name."""

FIRST_STEPS = """\
Odradek: the Kafka you pip install, and tools that work with any Kafka. Start with one of these:

  odradek demo                                  see it work, in 20 seconds
  odradek serve                                 run a broker at 127.0.0.1:9092, with its data in ./odradek-data

and, while the broker runs, in another terminal:

  echo hello | odradek produce greetings
  odradek consume greetings --from earliest

`odradek --help` lists all commands, `odradek COMMAND --help` describes one, with examples.
"""
"""What `odradek` without arguments prints."""

EPILOG = f"""\
\b
Examples:
  odradek demo
  odradek serve
  odradek topics create hello --partitions 3
  echo 'to all' | odradek produce hello
  odradek consume hello --from earliest

\b
Exit codes:
{chr(10).join("  " + line for line in EXIT_CODES.splitlines())}
"""


class OdradekGroup(click.Group):
    """The root group: imports commands at first use, and turns libraries' errors into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which a new user needs the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return the command of the same name."""
        if cmd_name not in COMMANDS:
            return None
        module = ELSEWHERE.get(cmd_name, f"odradek.gateway.cli.{cmd_name}")
        command: Any = getattr(importlib.import_module(module), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's. Wrong usage for a name that is similar to a command's names that command."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            for close in difflib.get_close_matches(args[0], COMMANDS, n=1):
                ctx.fail(f"there is no command {args[0]!r}; did you mean `odradek {close}`?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. Errors that the user can act on become one line and an exit code; our bugs, a traceback."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _forget_stdout()
            ctx.exit(READER_GONE)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if (known := explained(error)) is not None:
                raise known from error
            raise
        return result


def _forget_stdout() -> None:
    # The interpreter flushes stdout once more at exit, and would report the broken pipe again.
    if sys.stdout is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"odradek {VERSION}")
        ctx.exit()


@click.group(
    cls=OdradekGroup,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Print the version."
)
@click.option("-v", "--verbose", is_flag=True, help="Log what the Kafka client does, on stderr.")
@click.pass_context
def cli(context: click.Context, *, verbose: bool) -> None:
    """Odradek: the Kafka you pip install, and tools that work with any Kafka."""
    if context.invoked_subcommand is None:
        click.echo(FIRST_STEPS, nl=False)
        return
    if verbose:
        import logging

        logging.basicConfig(level=logging.DEBUG, format="%(asctime)s level=%(levelname)s logger=%(name)s %(message)s")


def main() -> None:
    """The console script."""
    hide_secrets()
    show_any_character()
    cli(prog_name="odradek")


def show_any_character() -> None:
    """Print `\\u25cf` for a character that stdout's encoding lacks, as Windows's in a pipe, instead of failing."""
    output = sys.stdout
    if isinstance(output, io.TextIOWrapper) and output.errors == "strict" and output.encoding.lower() != "utf-8":
        output.reconfigure(errors="backslashreplace")


__all__ = ["VERSION", "CliError", "cli", "main"]
