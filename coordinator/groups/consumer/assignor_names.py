"""The names of the server-side assignors, apart from the assignors, which are imported only when they are used."""

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
"""The class names of Kafka's assignors, which a configuration may have, to the names here."""
