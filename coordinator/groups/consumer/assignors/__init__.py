"""The server-side assignors, by the names that clients ask for. Each is a function of a `Problem`."""

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.groups.consumer.assignors.problem import Problem, Solution
from coordinator.groups.consumer.assignors.range import assign_ranges
from coordinator.groups.consumer.assignors.uniform import assign_uniformly

UNIFORM: Final = "uniform"
RANGE: Final = "range"

ASSIGNORS: Final[Mapping[str, Callable[[Problem], Solution]]] = {UNIFORM: assign_uniformly, RANGE: assign_ranges}
"""Name to assignor."""

_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor"
KAFKAS_ASSIGNORS: Final[Mapping[str, str]] = {
    f"{_PACKAGE}.UniformAssignor": UNIFORM,
    f"{_PACKAGE}.RangeAssignor": RANGE,
}
"""The class names that a Kafka's configuration may have for them."""
