"""A Kafka release whose APIs and features a broker shows to clients instead of its own (`odradek.emulated.release`).

A version of an API is served if both the release and Odradek serve it; any other is refused as Kafka refuses one that
it does not know. The level of a feature is at most the release's. What the release did otherwise differently is not
emulated: the answers are those of the served versions.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from odradek.coordinator.configs.layers import BrokerLayers
from odradek.gateway.config.errors import ConfigError
from odradek.gateway.config.texts import optional
from odradek.wire.api_keys import ADVERTISED, ApiKey
from odradek.wire.values import immutable

if TYPE_CHECKING:
    from odradek.coordinator.metadata.image.image import FeaturesImage

SETTING: Final = "odradek.emulated.release"


@immutable
class Release:
    """What the brokers of a release serve to clients, as far as Odradek does.

    `features` are the lowest and highest level of each feature and the level of a new cluster.
    """

    name: str
    served: Mapping[ApiKey, tuple[int, int]]
    features: Mapping[str, tuple[int, int, int]]

    def shown(self, features: "FeaturesImage") -> "FeaturesImage":
        """The features of a cluster as the release would have them."""
        from odradek.coordinator.metadata.image.image import FeaturesImage

        supported: dict[str, tuple[int, int]] = {}
        finalized: dict[str, int] = {}
        for name, (low, high, level) in self.features.items():
            own_low, own_high = features.supported.get(name, (0, 0))
            if 0 < min(high, own_high) >= max(low, own_low):
                supported[name] = max(low, own_low), min(high, own_high)
            finalized[name] = min(level, features.finalized.get(name, 0))
        return FeaturesImage(supported, {name: level for name, level in finalized.items() if level})


@cache
def release_named(name: str) -> Release:
    """The release of this name, as "2.8". Raises KeyError."""
    from odradek.wire.releases import FEATURES, RELEASES, VERSIONS

    until = RELEASES.index(name) if name in RELEASES else None
    if until is None:
        raise KeyError(name)
    served: dict[ApiKey, tuple[int, int]] = {}
    for key, (own_low, own_high) in ADVERTISED.items():
        low, high = _range_at(VERSIONS.get(key, ""), RELEASES[: until + 1])
        if max(low, own_low) <= min(high, own_high):
            served[key] = max(low, own_low), min(high, own_high)
    return Release(name, served, FEATURES.get(name, {}))


def _range_at(changes: str, releases: tuple[str, ...]) -> tuple[int, int]:
    """The range in force at the last of `releases`, of changes such as "2.0 0-6, 2.1 0-7"; (0, -1) if there is none."""
    found = 0, -1
    for change in filter(None, changes.split(", ")):
        since, _, versions = change.partition(" ")
        if since in releases:
            low, _, high = versions.partition("-")
            found = (int(low), int(high)) if high else (0, -1)
    return found


def release_of(layers: BrokerLayers, *, is_alone: bool) -> Release | None:
    """The release to emulate; None for none. Raises ConfigError."""
    name = optional(layers, "odradek.emulated.release")
    if name is None:
        return None
    if not is_alone:
        message = f"{SETTING} is for a broker without others: brokers use newer APIs among themselves"
        raise ConfigError(message, SETTING)
    return release_named(name)
