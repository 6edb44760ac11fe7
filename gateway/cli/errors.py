"""Exit codes of commands, and the one place where errors of client libraries become one line on stderr."""

import re
import signal
import sys
from typing import IO, Any, cast

import click

from odradek.gateway.cli.visible import visible
from odradek.wire.errors import ErrorCode

EXIT_CODES = """\
0    done
1    the broker refused, or something failed
2    wrong usage
3    no broker could be reached
130  interrupted (Ctrl-C)
141  the reader of the output has closed it
143  ended by SIGTERM"""

INTERRUPTED = 130
READER_GONE = 141
TERMINATED = 143

_CLIENT_ERROR = r"\[Error (?P<code>-?\d+)\] \w+(?:: (?P<message>.*))?"

_QUOTED_MESSAGE = r"error_message=(?P<quote>['\"])(?P<message>.*?)(?P=quote)[,)]"


class CliError(click.ClickException):
    """The command failed for a reason, or several, that the user can act on; ends the process with exit code 1."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("\nodradek: ".join(map(visible, reasons)))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print one line on stderr for each reason."""
        click.echo(f"odradek: {self.format_message()}", file=file, err=file is None)


class UnreachableError(CliError):
    """No broker answers at the bootstrap address; ends the process with exit code 3."""

    exit_code = 3


class EndedError(CliError):
    """A broker has served clients and stopped at an error; ends the process with exit code 1."""


class InterruptedCommandError(CliError):
    """Ctrl-C was pressed, and the command has finished what it was doing; ends the process with exit code 130."""

    exit_code = INTERRUPTED


class TerminatedCommandError(CliError):
    """As `InterruptedCommandError`, for SIGTERM; ends the process with exit code 143."""

    exit_code = TERMINATED


def ended_by(number: int, done: str = "") -> CliError:
    """The error of a command that the signal `number` has ended; `done` describes what it had done by then."""
    kind, reason = (
        (TerminatedCommandError, "terminated") if number == signal.SIGTERM else (InterruptedCommandError, "interrupted")
    )
    return kind(f"{reason}; {done}" if done else reason)


def broker_error_text(code: int, message: str | None = None) -> str:
    """A Kafka error code as text: its name, and `message`, the broker's own, or else the description of the code."""
    try:
        error = ErrorCode(code)
    except ValueError:
        return f"error {code}: {message}" if message else f"error {code}"
    return f"{error.name}: {message or error.message}"


def client_error_text(text: str) -> str:
    """As `broker_error_text`, for kafka-python's text: `[Error 40] SomeError: message`, or only a class name."""
    errors = cast("Any", sys.modules["kafka.errors"])
    if match := re.fullmatch(_CLIENT_ERROR, text, re.DOTALL):
        return broker_error_text(int(match["code"]), match["message"])
    return broker_error_text(getattr(errors, text).errno) if hasattr(errors, text) else text


def confluent_error_text(error: Any) -> str:  # noqa: ANN401 - older versions have no types
    """As `broker_error_text`, for a `confluent_kafka.KafkaError`, whose codes below 0 are the library's own."""
    return broker_error_text(error.code()) if error.code() >= 0 else str(error.str())


def response_message(text: str) -> str | None:
    """The broker's message, extracted from an error of kafka-python that contains the whole request and response."""
    match = re.search(_QUOTED_MESSAGE, text, re.DOTALL)
    return match["message"] if match else None


def explained(error: Exception) -> CliError | None:
    """The command error that describes `error`; None if `error` is our own bug, which should show its traceback."""
    errors = cast("Any", sys.modules.get("kafka.errors"))
    if errors is not None and isinstance(error, errors.KafkaError):
        return _explained_kafka_error(errors, error)
    confluent = cast("Any", sys.modules.get("confluent_kafka"))
    if confluent is not None and isinstance(error, confluent.KafkaException):
        return CliError(confluent_error_text(error.args[0]))
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "kafka":
        return CliError("this command is a client of a broker and needs kafka-python: pip install 'odradek[cli]'")
    return None


def _explained_kafka_error(errors: Any, error: Any) -> CliError:  # noqa: ANN401 - kafka-python has no types
    if isinstance(error, errors.BrokerResponseError):
        detail = " ".join(str(arg) for arg in error.args if arg)
        return CliError(broker_error_text(error.errno, detail or None))
    if isinstance(error, errors.UnknownBrokerIdError | errors.NodeNotReadyError) and isinstance(error.args[0], int):
        return UnreachableError(f"broker {error.args[0]} does not answer")
    unreachable = (errors.KafkaConnectionError, errors.MetadataEmptyBrokerList, errors.NodeNotReadyError)
    if isinstance(error, unreachable) or "bootstrap" in str(error):
        return UnreachableError(f"no Kafka broker answers there: {_bare(error)}")
    return CliError(_bare(error))


def _bare(error: Exception) -> str:
    return " ".join(str(arg) for arg in error.args if arg) or type(error).__name__
