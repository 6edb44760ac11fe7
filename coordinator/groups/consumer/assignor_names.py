"""The names of the server-side assignors, for who checks settings: the assignors themselves are imported when used."""

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
"""The class names that a Kafka's configuration may have for them."""
