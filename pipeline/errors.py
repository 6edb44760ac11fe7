"""The errors of jobs that their user can act on."""

from odradek.gateway.cli.errors import CliError


class PipelineError(CliError):
    """A job cannot begin or go on; the message says why and what to change. Ends a command with exit code 1."""


class MissingError(PipelineError):
    """Something that a job needs is not installed; the message says how to get it."""
