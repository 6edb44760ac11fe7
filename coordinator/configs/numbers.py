"""Numbers in Java's syntax: configs are Java's text, so `1_000` is not a number and 1e9 is formatted as 1.0E9."""

import math
import re

from odradek.wire.schema.runtime import MAX_STRING_BYTES

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
# Each digit is matched in one way only: otherwise a long run of digits before another character takes quadratic time.
_DOUBLE = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?|Infinity|NaN)", re.ASCII)
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def parse_integer(text: str, bits: int) -> int | None:
    """Returns the signed integer of `bits` bits in `text`, None if it is not one."""
    if not _INTEGER.fullmatch(text) or len(text) > bits:  # more digits cannot fit, unless they are leading zeros
        return None
    value = int(text)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def parse_double(text: str) -> float | None:
    """Returns the double in `text`, None if it is not one; Java's suffixes are allowed, hexadecimal is not."""
    trimmed = text.strip()
    if len(trimmed) > MAX_STRING_BYTES or not _DOUBLE.fullmatch(trimmed):
        return None
    return float(trimmed if trimmed.endswith("y") else trimmed.rstrip("fFdD"))


def format_double(value: float) -> str:
    """Formats `value` like Java's Double.toString: plain from 0.001 to below 10 million, else with an exponent."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    digits, _, exponent = f"{value:e}".partition("e")
    digits, exponent = _shortest(value, int(exponent))
    return f"{digits}E{exponent}"


def _shortest(value: float, exponent: int) -> tuple[str, int]:
    """Returns the fewest mantissa digits that parse to `value`, with its exponent."""
    for precision in range(1, 17):
        digits, _, power = f"{value:.{precision}e}".partition("e")
        if float(f"{digits}e{power}") == value:
            return digits, int(power)
    return repr(value), exponent
