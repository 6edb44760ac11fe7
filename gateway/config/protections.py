"""Refuses to start with settings for a protection (such as TLS) that this broker does not implement."""

from odradek.coordinator.configs.protections import ADVICE, protection_of
from odradek.gateway.config.errors import ConfigError
from odradek.gateway.config.sources import Settings

_WHAT_TO_DO = (
    "remove them to run without that protection (then let only trusted machines reach the port, for example by "
    "listeners=PLAINTEXT://127.0.0.1:9092 or a firewall), or use a Kafka for this"
)


def check_protections(settings: Settings) -> None:
    """Raise ConfigError with every setting for a protection that is not implemented, and its source.

    Values are not shown: some are passwords.
    """
    promises = [(name, promise) for name, setting in settings.items() if (promise := protection_of(name, setting.text))]
    if not promises:
        return
    listed = "; ".join(f"{name} ({settings[name].source}) promises {promise}" for name, promise in promises)
    raise ConfigError(f"{listed}; but {ADVICE}: {_WHAT_TO_DO}")
