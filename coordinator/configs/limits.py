"""Limits that Kafka's definitions do not have.

They are checked when a broker starts with a setting and when a request sets it, not when a stored setting is read: one
invalid text would make every setting of a broker unreadable, and the metadata log may contain a higher value.
"""

from collections.abc import Mapping
from typing import Final

from odradek.coordinator.configs.definition import ConfigValue
from odradek.coordinator.configs.validators import Range, between

MOST_CLEANER_THREADS: Final = 1000

_LIMITS: Final[Mapping[str, Range]] = {"log.cleaner.threads": between(0, MOST_CLEANER_THREADS)}


def check_limit(name: str, value: ConfigValue) -> None:
    """Raise ConfigRefusedError if the value of a broker config is beyond its limit."""
    if name in _LIMITS:
        _LIMITS[name].check(name, value)
