"""The broker's configuration: its sources, and the typed result.

Sources by precedence: command line, `ODRADEK_*` environment, `KAFKA_*` environment (as the official image takes it), a
file (TOML or Kafka's server.properties), defaults. Names are Kafka's; our own begin with `odradek.`.
"""

from odradek.gateway.config.broker_config import BrokerConfig
from odradek.gateway.config.errors import ConfigError
from odradek.gateway.config.listeners import Endpoint
from odradek.gateway.config.loading import load_config, load_storage_url
from odradek.gateway.config.nodes import NodeConfig, Voter
from odradek.gateway.config.python_values import SettingValue

__all__ = [
    "BrokerConfig",
    "ConfigError",
    "Endpoint",
    "NodeConfig",
    "SettingValue",
    "Voter",
    "load_config",
    "load_storage_url",
]
