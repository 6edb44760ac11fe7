"""What a test expects of a record, and what an assertion that fails says.

A key or a value is expected to be: bytes, or text that is encoded as UTF-8; None for null; a predicate, which is called
with the bytes; an object with `matches`, as PyHamcrest's matchers have; or any other object that is compared by `==`,
such as `unittest.mock.ANY`. Expected headers are a mapping, whose headers the record must have among others, or a list
of pairs, which must be all its headers in this order.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from typing import Final, cast

from odradek.gateway.testing.kit.values import Record

SHOWN_RECORDS: Final = 5
SHOWN_BYTES: Final = 200
COMPARED_BYTES: Final = 200
COMPARED_RECORDS: Final = 1000
NEVER_EQUAL: Final = frozenset({dict, list, tuple, set, frozenset, int, float, bool})


class Expectation:
    """What a record has to be: `expected` has a key, a value and headers, as far as they are compared.

    Raises TypeError for a key or value that no record can be equal to.
    """

    def __init__(self, expected: Mapping[str, object], partition: int | None = None) -> None:
        for name in ("key", "value"):
            value = expected.get(name)
            kind: type[object] = type(value)
            if kind in NEVER_EQUAL:
                raise TypeError(
                    f"{name} is a {kind.__name__}, and keys and values are bytes: give bytes, text, or a "
                    f"function such as {name}=lambda data: json.loads(data) == {value!r}"
                )
        self._expected = dict(expected)
        self._partition = partition

    def differences(self, record: Record) -> list[str]:
        """The names of what is not as expected; empty if the record matches."""
        found = [] if self._partition in (None, record.partition) else ["partition"]
        for name, expected in self._expected.items():
            actual = getattr(record, name)
            try:
                matches = has_headers(expected, actual) if name == "headers" else is_like(expected, actual)
            except Exception as error:  # noqa: BLE001 - a predicate that fails on this record
                found.append(f"{name} ({type(error).__name__}: {shown_text(str(error))})")
            else:
                found += [] if matches else [name]
        return found

    def __str__(self) -> str:
        """The expected parts, as they are given to the assertion."""
        parts = [f"{name}={shown(expected)}" for name, expected in self._expected.items()]
        return ", ".join(parts if self._partition is None else [*parts, f"partition={self._partition}"])

    def likeness(self, record: Record) -> float:
        """How near a record is that does not match, for the order in a message."""
        wrong = {each.split(" ")[0] for each in self.differences(record)}
        near = [_likeness(self._expected[name], getattr(record, name)) for name in ("key", "value") if name in wrong]
        return sum(near) - len(wrong)


def is_like(expected: object, actual: bytes | None) -> bool:
    """True if a key or value is as expected. Raises what a predicate raises."""
    if isinstance(expected, str):
        return actual == expected.encode()
    matches = getattr(expected, "matches", None)
    if callable(matches):
        return bool(matches(actual))
    if callable(expected):
        return bool(expected(actual))
    return bool(expected == actual)


def has_headers(expected: object, actual: tuple[tuple[str, bytes | None], ...]) -> bool:
    """True if the headers are as expected."""
    if isinstance(expected, Mapping):
        named = cast("Mapping[str, object]", expected)
        return all(any(name == each and is_like(value, data) for each, data in actual) for name, value in named.items())
    if isinstance(expected, list | tuple):
        pairs = [*cast("Iterable[tuple[str, object]]", expected)]
        return len(pairs) == len(actual) and all(
            name == each and is_like(value, data) for (name, value), (each, data) in zip(pairs, actual, strict=True)
        )
    if callable(expected):
        return bool(cast("Callable[[object], object]", expected)(actual))
    return bool(expected == actual)


class Search:
    """Takes records as they come, until there are `count` that match; None means at least one."""

    def __init__(self, topic: str, expectation: Expectation, count: int | None) -> None:
        if count is not None and count < 1:
            raise ValueError(f"count is at least 1, and not {count}: for none use assert_not_produced")
        self._topic = topic
        self._expectation = expectation
        self._count = count
        self.seen: list[Record] = []
        self.found: list[Record] = []

    def take(self, records: Iterable[Record]) -> bool:
        """Compare records; True if enough match."""
        for record in records:
            (self.seen if self._expectation.differences(record) else self.found).append(record)
        if self._count is not None and len(self.found) > self._count:
            raise AssertionError(self._too_many(self._count))
        return len(self.found) >= (self._count or 1)

    def failure(self, waited_s: float, note: str = "") -> str:
        """The message of an assertion that fails: what there was instead, the nearest records first."""
        wanted = str(self._expectation)
        number, verb = (f"only {len(self.found)}", "have") if self.found else ("no record", "has")
        condition = f" {verb} {wanted}" if wanted else ""
        lines = [f"{number} in {self._topic!r}{condition}{self._of()} after {waited_s:.1f} s"]
        if note:
            lines.append(note)
        if self.found:
            lines += [f"  {described(each)}" for each in self.found[:SHOWN_RECORDS]]
        others = len(self.seen)
        if others:
            lines.append(f"of its {others} other records, the nearest:" if others > SHOWN_RECORDS else "it has:")
            lines += [f"  {self._with_differences(each)}" for each in self._nearest()]
        elif not self.found and not note:
            lines.append("the topic is empty")
        return "\n".join(lines)

    def unexpected(self) -> str:
        """The message of an assertion that no record matches."""
        wanted = str(self._expectation)
        count = "1 record" if len(self.found) == 1 else f"{len(self.found)} records"
        lines = [f"{count} in {self._topic!r}{f' with {wanted}' if wanted else ''}:"]
        return "\n".join(lines + [f"  {described(each)}" for each in self.found[:SHOWN_RECORDS]])

    def _of(self) -> str:
        return "" if self._count is None else f" (expected {self._count})"

    def _nearest(self) -> list[Record]:
        newest = self.seen[: -COMPARED_RECORDS - 1 : -1]
        return sorted(newest, key=self._expectation.likeness, reverse=True)[:SHOWN_RECORDS]

    def _with_differences(self, record: Record) -> str:
        return f"{described(record)}  <- other {', '.join(self._expectation.differences(record))}"

    def _too_many(self, count: int) -> str:
        lines = [f"{len(self.found)} records in {self._topic!r} match, and not {count}: {self._expectation}"]
        return "\n".join(lines + [f"  {described(each)}" for each in self.found[: count + SHOWN_RECORDS]])


def refuse(search: Search, records: Iterable[Record]) -> None:
    """Raise AssertionError if one of the records matches."""
    if search.take(records):
        raise AssertionError(search.unexpected())


class Deadline:
    """The time that is left of a wait."""

    def __init__(self, within_s: float) -> None:
        self._began = time.monotonic()
        self._within_s = within_s

    @property
    def left_s(self) -> float:
        """Seconds, at least 0."""
        return max(self._within_s - self.waited_s, 0.0)

    @property
    def waited_s(self) -> float:
        """The seconds since the wait began."""
        return time.monotonic() - self._began


def described(record: Record) -> str:
    """A record in one line, with bounded lengths and without control characters."""
    headers = f"  headers={shown(record.headers)}" if record.headers else ""
    place = f"{record.topic}-{record.partition}@{record.offset}"
    return f"{place}  key={shown(record.key)}  value={shown(record.value)}{headers}"


def shown(value: object) -> str:
    """A value as Python writes it, shortened."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        more = f"... ({len(value):,} bytes)" if len(value) > SHOWN_BYTES else ""
        return f"{value[:SHOWN_BYTES]!r}{more}"
    code = getattr(value, "__code__", None)
    if code is not None:  # a function's address says nothing
        return (
            f"<{getattr(value, '__name__', 'function')} at {code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}>"
        )
    return shown_text(repr(value))


def shown_text(text: str) -> str:
    """Text in one line, shortened, with control characters escaped."""
    printable = "".join([each if each.isprintable() else ascii(each)[1:-1] for each in text[:SHOWN_BYTES]])
    return printable + ("..." if len(text) > SHOWN_BYTES else "")


def _likeness(expected: object, actual: bytes | None) -> float:
    """Between 0 and 1; 0 for what cannot be compared by its bytes."""
    if isinstance(expected, str):
        expected = expected.encode()
    if not isinstance(expected, bytes) or actual is None:
        return 0.0
    return SequenceMatcher(None, expected[:COMPARED_BYTES], actual[:COMPARED_BYTES]).ratio()
