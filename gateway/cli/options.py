"""Options of several commands, and the types of their values."""

# ruff: noqa: ANN401 - `connection_options` passes on any arguments of a command

import functools
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from odradek.gateway.cli.assignment import Assignment
from odradek.gateway.cli.client import DEFAULT_BOOTSTRAP, Target, library, open_admin, split_address

F = TypeVar("F", bound=Callable[..., Any])

_DURATION = re.compile(
    r"(?P<sign>[+-])?P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
LONGEST_TOPIC_NAME = 249
COMPLETION_TIMEOUT_MS = 1_000


class Text(click.ParamType[str]):
    """A text that is not empty, such as the name of a group."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text itself; wrong usage if it is empty."""
        if not str(value):
            self.fail("it must not be empty", param, ctx)
        return str(value)


class TopicName(click.ParamType[str]):
    """A topic's name that Kafka accepts."""

    name = "topic"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself; wrong usage if no topic can have it."""
        if not is_topic_name(str(value)):
            self.fail(
                f"{value!r} is not a topic's name: up to {LONGEST_TOPIC_NAME} letters, digits, '.', '_' and '-', but "
                "neither '.' nor '..'",
                param,
                ctx,
            )
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The topics of the broker; none if it does not answer within a second."""
        target = Target(ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP, COMPLETION_TIMEOUT_MS)
        try:
            with open_admin(target) as admin:
                found = [topic["name"] for topic in admin.describe_topics()]
        except (click.ClickException, OSError, library().errors.KafkaError):
            return []
        return [CompletionItem(name) for name in sorted(found) if name.startswith(incomplete)]


def is_topic_name(text: str) -> bool:
    """True if Kafka allows a topic with that name."""
    return re.fullmatch(rf"[a-zA-Z0-9._-]{{1,{LONGEST_TOPIC_NAME}}}", text) is not None and text not in {".", ".."}


class OneOf(click.ParamType[str]):
    """One of Kafka's names, in any case; converted to Kafka's spelling."""

    name = "name"

    def __init__(self, *names: str) -> None:
        self._names = names

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Find the name; the error for an unknown one lists all names."""
        found = next((name for name in self._names if name.lower() == str(value).lower()), None)
        if found is None:
            self.fail(f"{value!r} is not one of {', '.join(self._names)}", param, ctx)
        return found


def finite(_ctx: click.Context, param: click.Parameter, value: float) -> float:
    """The value; wrong usage if it is infinite or not a number, which `FloatRange` accepts."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value!r} is not a number of seconds", param=param)
    return value


class Moment(click.ParamType[int]):
    """A point in time in ISO 8601 (UTC unless it has an offset), converted to milliseconds since the epoch."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert to milliseconds since the epoch; wrong usage if the value is not a time."""
        if isinstance(value, int):
            return value
        try:
            return parse_moment_ms(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time such as 2013-01-01T12:00:00Z", param, ctx)


class Duration(click.ParamType[int]):
    """An ISO 8601 duration in days, hours, minutes and seconds, such as PT1H30M; converted to milliseconds."""

    name = "duration"

    def __init__(self, *, negative: bool = False) -> None:
        self._negative = negative

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert to milliseconds; wrong usage if the value is not a duration, or is negative and must not be."""
        if isinstance(value, int):
            return value
        try:
            length_ms = parse_duration_ms(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a duration such as P1D or PT1H30M", param, ctx)
        if length_ms < 0 and not self._negative:
            self.fail(f"{value!r} is negative", param, ctx)
        return length_ms


def parse_moment_ms(text: str) -> int:
    """An ISO 8601 time in milliseconds since the epoch; UTC if it has no offset, as in Kafka's tools."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """A `PnDTnHnMnS` duration in milliseconds; raises ValueError."""
    match = _DURATION.fullmatch(text.upper())
    parts = {name: float(part) for name, part in match.groupdict().items() if part and name != "sign"} if match else {}
    if match is None or not parts:
        raise ValueError(text)
    try:
        length_ms = round(timedelta(**parts).total_seconds() * 1000)
    except OverflowError as error:
        raise ValueError(text) from error
    return -length_ms if match["sign"] == "-" else length_ms


def property_value(text: str) -> str | int | bool:
    """The value of a kafka-python setting: a number or boolean if the text is one, else the text."""
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def connection_options(command: F) -> F:
    """Add --bootstrap, --timeout and -X to a command, which receives them as `target: Target`."""

    @functools.wraps(command)
    def with_target(
        *args: Any, bootstrap: str, timeout: float, properties: tuple[tuple[str, str], ...], **options: Any
    ) -> Any:
        for address in bootstrap.split(","):
            split_address(address)  # reports wrong usage before any broker is tried
        settings = {name.replace(".", "_"): property_value(text) for name, text in properties}
        return command(*args, target=Target(bootstrap, int(timeout * 1000), settings), **options)

    for option in reversed(_CONNECTION_OPTIONS):
        with_target = option(with_target)
    return with_target  # type: ignore[return-value]


bootstrap_option = click.option(
    "-b",
    "--bootstrap",
    "--bootstrap-server",
    "bootstrap",
    metavar="HOST:PORT[,...]",
    envvar="ODRADEK_BOOTSTRAP",
    default=DEFAULT_BOOTSTRAP,
    show_default=True,
    show_envvar=True,
    help="Brokers to connect to first, of any Kafka cluster.",
)
_CONNECTION_OPTIONS = (
    bootstrap_option,
    click.option(
        "--timeout",
        metavar="SECONDS",
        type=click.FloatRange(min=0.1),
        callback=finite,
        default=15.0,
        show_default=True,
        help="The time limit for connecting to the cluster, and for the answer to an administrative command.",
    ),
    click.option(
        "-X",
        "properties",
        metavar="NAME=VALUE",
        type=Assignment(),
        multiple=True,
        help="A client setting by its kafka-python name, e.g. -X security.protocol=SASL_SSL. Repeatable.",
    ),
)


def state_option(names: Sequence[str], what: str, example: str) -> Callable[[F], F]:
    """Add --state, which a command receives as `states`: a selection of `names`, to filter the listed `what`."""
    return click.option(
        "--state",
        "states",
        metavar="STATE",
        type=OneOf(*names),
        multiple=True,
        help=f"Only {what} in this state, e.g. {example} or Empty. Repeatable.",
    )


codec_option = click.option(
    "-z",
    "--codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Compression.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
