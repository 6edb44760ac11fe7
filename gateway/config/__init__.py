"""The broker's configuration: where it comes from, and what it comes to.

From the highest: command line, `ODRADEK_*` environment, `KAFKA_*` environment (as the official image takes it), a file
(TOML or Kafka's server.properties), defaults. Names are Kafka's; our own begin with `odradek.`.
"""

from gateway.config.broker_config import BrokerConfig
from gateway.config.errors import ConfigError
from gateway.config.listeners import Endpoint
from gateway.config.loading import load_config
from gateway.config.python_values import SettingValue

__all__ = ["BrokerConfig", "ConfigError", "Endpoint", "SettingValue", "load_config"]
