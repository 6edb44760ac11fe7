"""Every config of a client metrics subscription of Apache Kafka 4.3.1 (KIP-714): a pure table."""

from typing import Final

from odradek.coordinator.configs.definition import ConfigType, Definition
from odradek.coordinator.configs.validators import list_of

CLIENT_METRICS_DEFINITIONS: Final = (
    Definition("metrics", ConfigType.LIST, "", list_of()),
    Definition("interval.ms", ConfigType.INT, "300000"),
    Definition("match", ConfigType.LIST, "", list_of()),
)
