"""`odradek completion`: print the script that completes commands, options, their values, and topics in a shell."""

from typing import Any

import click
from click.shell_completion import ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ODRADEK_COMPLETE"

EPILOG = """\
\b
To install it for new shells, add the line to the file:
  bash, ~/.bashrc:                    eval "$(odradek completion bash)"
  zsh, ~/.zshrc, after compinit:      eval "$(odradek completion zsh)"
  fish, ~/.config/fish/config.fish:   odradek completion fish | source

\b
Example:
  odradek completion bash
"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that adds completion of `odradek` to a shell.

    Names of topics come from the broker at --bootstrap or ODRADEK_BOOTSTRAP, if it answers within a second.
    """
    from odradek.gateway.cli.main import cli

    kind: Any = get_completion_class(shell)
    # ShellComplete's method, since that of the class for bash starts a bash to find its version
    click.echo(ShellComplete.source(kind(cli, {}, "odradek", VARIABLE)))
