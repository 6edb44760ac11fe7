"""`odradek completion`: print the script by which a shell completes commands, options, their values, and topics."""

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
    """Print a script that makes a shell complete `odradek`.

    Names of topics come from the broker at --bootstrap or ODRADEK_BOOTSTRAP, where one answers within a second.
    """
    from odradek.gateway.cli.main import cli

    kind: Any = get_completion_class(shell)
    # not the method of bash's own class, which starts a bash to see which version it is
    click.echo(ShellComplete.source(kind(cli, {}, "odradek", VARIABLE)))
