"""The server-side assignors, by the names that clients use. Each is a function of a `Problem`."""

from collections.abc import Callable, Mapping
from typing import Final

from odradek.coordinator.groups.consumer.assignor_names import RANGE, UNIFORM
from odradek.coordinator.groups.consumer.assignors.problem import Problem, Solution
from odradek.coordinator.groups.consumer.assignors.range import assign_ranges
from odradek.coordinator.groups.consumer.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Callable[[Problem], Solution]]] = {UNIFORM: assign_uniformly, RANGE: assign_ranges}
"""The assignors by name."""
