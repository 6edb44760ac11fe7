"""Errors of jobs for their users."""

from odradek.gateway.cli.errors import CliError


class PipelineError(CliError):
    """A job cannot begin or continue; the message contains the reason and what to change. Ends a command with exit code
    1.
    """


class MissingError(PipelineError):
    """A dependency of a job is not installed; the message contains how to install it."""
