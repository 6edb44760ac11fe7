"""The options of a read: those of `format("kafka")`, under the same names, and a few of our own."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from odradek.gateway.data_urls import local_path
from odradek.pipeline.errors import PipelineError

EARLIEST: Final = -2
LATEST: Final = -1

SpecificOffsets: TypeAlias = Mapping[tuple[str, int], int]
"""An offset, or a time in milliseconds, for each (topic, partition)."""

_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
_UNCOMMITTED, _COMMITTED = "read_uncommitted", "read_committed"
_OWN: Final = (
    *_SUBSCRIPTIONS,
    "path",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "includeHeaders",
    "includeActive",
    "isolation",
    "minPartitions",
)
_OF_THE_WIRE: Final = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "useDeprecatedOffsetFetching",
)
"""Options of `format("kafka")` about connections: ignored here, as are all `kafka.*` but `kafka.isolation.level`."""

_LIMITS: Final = ("maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay")
"""Options of `format("kafka")` that a source in Python cannot support with every trigger."""


class OptionError(PipelineError):
    """An option is unknown, missing or invalid. The message names it."""


@dataclass(frozen=True)
class Bound:
    """The start or end of a read: `default` (EARLIEST or LATEST) unless offsets or times are given."""

    default: int
    offsets: SpecificOffsets | None = None
    times_ms: SpecificOffsets | None = None
    time_ms: int | None = None

    @property
    def is_specific(self) -> bool:
        """True if each partition has to be named."""
        return self.offsets is not None or self.times_ms is not None


@dataclass(frozen=True)
class Subscription:
    """The partitions to read: one of the three is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True)
class Options:
    """All options of a read, checked."""

    path: Path
    subscription: Subscription
    starting: Bound
    ending: Bound
    committed: bool
    with_headers: bool
    include_active: bool
    fails_on_loss: bool
    late_start_is_latest: bool
    min_partitions: int | None


def parse(given: Mapping[str, str], *, streaming: bool) -> Options:
    """Read the options. Raises OptionError."""
    found = _known(given)
    strategy = found.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy is 'error' or 'latest', not {strategy!r}")
    starting = _bound(found, "starting", LATEST if streaming else EARLIEST)
    ending = _bound(found, "ending", LATEST)
    if not streaming and starting.default == LATEST and "startingOffsets" in found and not starting.is_specific:
        raise OptionError("startingOffsets of a batch read cannot be 'latest'")
    if ending.default == EARLIEST:
        raise OptionError("endingOffsets cannot be 'earliest'")
    if streaming and any(name.startswith("ending") for name in found):
        raise OptionError("endingOffsets and the like are for batch reads; a stream has no end")
    return Options(
        path=_path(found),
        subscription=_subscription(found),
        starting=starting,
        ending=ending,
        committed=_committed(found, given),
        with_headers=_flag(found, "includeHeaders", default=False),
        include_active=_flag(found, "includeActive", default=True),
        fails_on_loss=_flag(found, "failOnDataLoss", default=True),
        late_start_is_latest=strategy == "latest",
        min_partitions=_number(found, "minPartitions"),
    )


def _known(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options by their canonical names; Spark's names are case-insensitive."""
    names = {name.lower(): name for name in (*_OWN, *_OF_THE_WIRE)}
    limits = [name for name in given if name.lower() in _LIMITS]
    if limits:
        raise OptionError(f"{limits[0]}: Spark 4.1 gives sources in Python no read limits; a batch reads what there is")
    unknown = [name for name in given if name.lower() not in names and not name.lower().startswith("kafka.")]
    if unknown:
        raise OptionError(f'format("odradek") has no option {", ".join(sorted(unknown))}; it has {", ".join(_OWN)}')
    return {names[name.lower()]: value for name, value in given.items() if name.lower() in names}


def _path(found: Mapping[str, str]) -> Path:
    text = found.get("path", "")
    if not text:
        raise OptionError(
            "the option path is missing: a broker's data directory, as in option('path', '/var/lib/kafka')"
        )
    url = urlsplit(text)
    if url.scheme not in ("", "file", "lmdb") or url.netloc not in ("", "localhost"):
        raise OptionError(f"path is a directory of this machine or mounted here, not {text!r}")
    return Path(local_path(unquote(url.path)) if url.scheme else text)


def _subscription(found: Mapping[str, str]) -> Subscription:
    given = [name for name in _SUBSCRIPTIONS if name in found]
    if len(given) != 1:
        raise OptionError(f"one of the options {', '.join(_SUBSCRIPTIONS)} must be given, and only one")
    text = found[given[0]]
    if given == ["subscribe"]:
        topics = tuple(dict.fromkeys(filter(None, (each.strip() for each in text.split(",")))))
        if not topics:
            raise OptionError("subscribe names no topic")
        return Subscription(topics=topics)
    if given == ["subscribePattern"]:
        return Subscription(pattern=text)
    assigned = _json(text, "assign")
    try:
        return Subscription(
            assigned={topic: tuple(sorted({int(each) for each in _list(found)})) for topic, found in assigned.items()}
        )
    except (TypeError, ValueError) as error:
        raise OptionError(f'assign is JSON like {{"topic":[0,1]}}, not {text!r}') from error


def _list(found: object) -> Iterable[str]:
    if not isinstance(found, list):
        raise TypeError
    return cast("list[str]", found)


def _bound(found: Mapping[str, str], which: str, default: int) -> Bound:
    """Parse a bound. A time takes precedence over times of partitions, and those over offsets, as in Kafka's source."""
    at, by_time, by_offset = (found.get(which + each) for each in ("Timestamp", "OffsetsByTimestamp", "Offsets"))
    if at is not None:
        return Bound(default, time_ms=_int(at, which + "Timestamp"))
    if by_time is not None:
        return Bound(default, times_ms=_per_partition(by_time, which + "OffsetsByTimestamp"))
    if by_offset is None:
        return Bound(default)
    word = by_offset.strip().lower()
    if word in ("earliest", "latest"):
        return Bound(EARLIEST if word == "earliest" else LATEST)
    offsets = _per_partition(by_offset, which + "Offsets")
    refused = LATEST if which == "starting" and default == EARLIEST else EARLIEST if which == "ending" else None
    if refused in offsets.values():
        raise OptionError(f"{which}Offsets of a batch read cannot have {refused} for a partition")
    return Bound(default, offsets=offsets)


def _per_partition(text: str, name: str) -> dict[tuple[str, int], int]:
    try:
        found = {
            (topic, int(index)): int(cast("int", value))
            for topic, values in _json(text, name).items()
            for index, value in cast("dict[str, object]", values).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(
            f'{name} is \'earliest\', \'latest\' or JSON like {{"topic":{{"0":23,"1":-2}}}}, not {text!r}'
        ) from error
    return found


def _json(text: str, name: str) -> dict[str, object]:
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{name} is not JSON: {text!r}") from error
    if not isinstance(found, dict):
        raise OptionError(f"{name} is not a JSON object: {text!r}")
    return cast("dict[str, object]", found)


def _committed(found: Mapping[str, str], given: Mapping[str, str]) -> bool:
    wire = next((value for name, value in given.items() if name.lower() == "kafka.isolation.level"), None)
    level = found.get("isolation", wire if wire is not None else _COMMITTED).lower()
    if level not in (_COMMITTED, _UNCOMMITTED):
        raise OptionError(f"isolation is {_COMMITTED} or {_UNCOMMITTED}, not {level!r}")
    return level == _COMMITTED


def _flag(found: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = found.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name} is true or false, not {text!r}")
    return text == "true"


def _number(found: Mapping[str, str], name: str) -> int | None:
    if name not in found:
        return None
    number = _int(found[name], name)
    if number <= 0:
        raise OptionError(f"{name} is a number above 0, not {number}")
    return number


def _int(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise OptionError(f"{name} is a number, not {text!r}") from error
