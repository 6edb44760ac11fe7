"""The names of the server-side assignors, in a module of their own so that assignors are imported only when used."""

from collections.abc import Mapping
from typing import Final

UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNOR_NAMES: Final = (UNIFORM, RANGE)

_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor"
KAFKAS_ASSIGNORS: Final[Mapping[str, str]] = {
    f"{_PACKAGE}.UniformAssignor": UNIFORM,
    f"{_PACKAGE}.RangeAssignor": RANGE,
}
"""The name here of each of Kafka's assignors, by its class name, which a configuration may contain."""
