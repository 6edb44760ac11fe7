"""Parameter types for sizes and intervals such as `128MB` and `10s`."""

import re
from typing import Final

import click

_SIZES: Final = {"": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
SMALLEST_BYTES: Final = 1024
LONGEST_S: Final = 7 * 86400.0


class Size(click.ParamType[int]):
    """A size such as 128MB, with units in powers of 1024; converted to bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert to bytes; fails with a usage error."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d{1,12})\s*([KMG]B)?", str(value).upper())
        size = int(match[1]) * _SIZES[match[2] or ""] if match else 0
        if not SMALLEST_BYTES <= size < 2**53:
            self.fail(f"{value!r} is not a size such as 128MB, of 1KB or more", param, ctx)
        return size


class Interval(click.ParamType[float]):
    """A length of time such as 10s; converted to seconds."""

    name = "interval"

    def __init__(self, *, zero: bool = False) -> None:
        self._zero = zero

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert to seconds; fails with a usage error."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)(ms|s|m|h)", str(value))
        length_s = float(match[1]) * _SECONDS[match[2]] if match else -1.0
        if not 0.0 <= length_s <= LONGEST_S or (length_s == 0.0 and not self._zero):
            self.fail(f"{value!r} is not a length of time such as 10s, 500ms or 5m, up to a week", param, ctx)
        return length_s
