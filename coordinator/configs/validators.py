"""Validators of parsed values, with Kafka's messages."""

import re
from collections.abc import Sequence
from typing import Final, Protocol, cast

from odradek.coordinator.configs.errors import ConfigRefusedError, bad_value
from odradek.wire.values import immutable

_MAX_COUNT: Final = 2**31 - 1
_MAX_PORT: Final = 65535


class Validator(Protocol):
    """Checks one parsed value; raises ConfigRefusedError."""

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError when `value` is not allowed for `name`."""
        ...


@immutable
class Range:
    """A number from `low` to `high`, both included."""

    low: int | float
    high: int | float | None = None

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError when the number is out of range; NaN passes, as in Kafka."""
        if not isinstance(value, int | float):
            raise bad_value(name, "null", "Value must be non-null")
        if value < self.low:
            raise bad_value(name, value, f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise bad_value(name, value, f"Value must be no more than {self.high}")


@immutable
class RangeOr:
    """A number from `low` to `high`, or `also`."""

    low: int
    high: int
    also: int

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for any other number."""
        if value == self.also or (isinstance(value, int) and self.low <= value <= self.high):
            return
        raise bad_value(name, value, f"Value must be between {self.low} and {self.high} or equal to {self.also}")


@immutable
class OneOf:
    """One of several strings."""

    allowed: tuple[str, ...]

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for any other string."""
        if value not in self.allowed:
            raise bad_value(name, value, f"String must be one of: {', '.join(self.allowed)}")


@immutable
class OneOfAnyCase:
    """One of a set of strings, in upper or lower case."""

    allowed: tuple[str, ...]

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for any other string."""
        if not isinstance(value, str) or value.upper() not in self.allowed:
            raise bad_value(name, value, f"String must be one of (case insensitive): {', '.join(self.allowed)}")


class NonEmpty:
    """A string that is not empty."""

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for the empty string."""
        if value == "":
            raise bad_value(name, value, "String must be non-empty")


@immutable
class ListOf:
    """A list of non-empty strings, only of the `allowed` ones if there are any; `Definition.parse` drops duplicates."""

    allowed: tuple[str, ...] = ()
    may_be_empty: bool = True

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for an empty list or element, or one that is not allowed."""
        items = _items(value)
        if not items and not self.may_be_empty:
            valid = f"[{', '.join(self.allowed)}]" if self.allowed else "any non-empty value"
            raise ConfigRefusedError(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
        if "" in items:
            raise ConfigRefusedError(f"Configuration '{name}' values must not be empty.")
        for item in items if self.allowed else ():
            OneOf(self.allowed).check(name, item)


class ThrottledReplicas:
    """`*`, or pairs of partition and broker such as `0:1,1:2`."""

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for anything else."""
        items = _items(value)
        if items == ("*",) or all(re.fullmatch(r"\d+:\d+", item) for item in items):
            return
        form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        why = f"{name} must be the literal '*' or a list of replicas in the following format: {form}"
        raise bad_value(name, f"[{', '.join(items)}]", why)


class QuorumVoters:
    """Controllers as `id@host:port`."""

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for an entry of another form."""
        items = _items(value)
        if not all(re.fullmatch(r"\d+@[^@]+:\d+", item) for item in items):
            form = "Each entry should be in the form `{id}@{host}:{port}`."
            raise ConfigRefusedError(f"Invalid configuration value for {name}. {form}")
        _check_ports(name, items)


class HostPorts:
    """Servers as `host:port`."""

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for an entry of another form."""
        for item in _items(value):
            if not re.fullmatch(r".+:\d+", item):
                form = 'Each entry should be in the form "{host}:{port}"'
                raise ConfigRefusedError(f"Failed to parse host name from {item} for the configuration {name}. {form}")
        _check_ports(name, _items(value))


def _check_ports(name: str, addresses: Sequence[str]) -> None:
    for address in addresses:
        port = address.rpartition(":")[2]
        if int(port) > _MAX_PORT:
            raise bad_value(name, address, f"port out of range:{port}")


class HostCounts:
    """Pairs of address and number such as `10.0.0.1:5,10.0.0.2:9`."""

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for an entry of another form, or with a count that is no int32."""
        for item in str(value).split(",") if value else ():
            count = re.fullmatch(r".*:\s*([0-9]{1,10})\s*", item)
            if count is None or int(count[1]) > _MAX_COUNT:
                raise bad_value(name, value, f"{item!r} is not of the form HOST:COUNT")


class OffsetReset:
    """Where a share group starts: `earliest`, `latest` or `by_duration:` and an ISO 8601 duration (KIP-1106)."""

    def check(self, name: str, value: object) -> None:
        """Raise ConfigRefusedError for anything else."""
        text = str(value)
        duration = r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
        if text in ("earliest", "latest") or re.fullmatch(rf"by_duration:{duration}", text):
            return
        form = "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        raise bad_value(name, text, f"Invalid value `{text}` for configuration {name}. {form}")


def _items(value: object) -> tuple[str, ...]:
    return cast("tuple[str, ...]", value) if isinstance(value, tuple) else ()


def at_least(low: int | float) -> Range:
    """Numbers from `low` on."""
    return Range(low)


def between(low: int | float, high: int | float) -> Range:
    """Numbers from `low` to `high`."""
    return Range(low, high)


def one_of(*allowed: str) -> OneOf:
    """One of these strings."""
    return OneOf(allowed)


def list_of(*allowed: str, may_be_empty: bool = True) -> ListOf:
    """A list of these strings, or of any if none are given."""
    return ListOf(allowed, may_be_empty)
