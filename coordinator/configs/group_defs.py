"""Every group config of Apache Kafka 4.3.1 (KIP-848, KIP-932, KIP-1071): a pure table."""

from typing import Final

from odradek.coordinator.configs.definition import ConfigType, Definition
from odradek.coordinator.configs.validators import OffsetReset, at_least, one_of

BOOLEAN: Final = ConfigType.BOOLEAN
INT: Final = ConfigType.INT
STRING: Final = ConfigType.STRING

GROUP_DEFINITIONS: Final = (
    Definition("consumer.session.timeout.ms", INT, "45000", at_least(1)),
    Definition("consumer.heartbeat.interval.ms", INT, "5000", at_least(1)),
    Definition("consumer.assignment.interval.ms", INT, "1000", at_least(0)),
    Definition("share.session.timeout.ms", INT, "45000", at_least(1)),
    Definition("share.heartbeat.interval.ms", INT, "5000", at_least(1)),
    Definition("share.record.lock.duration.ms", INT, "30000", at_least(1000)),
    Definition("share.delivery.count.limit", INT, "5", at_least(2)),
    Definition("share.partition.max.record.locks", INT, "2000", at_least(100)),
    Definition("share.auto.offset.reset", STRING, "latest", OffsetReset()),
    Definition("share.isolation.level", STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted")),
    Definition("share.renew.acknowledge.enable", BOOLEAN, "true"),
    Definition("share.assignment.interval.ms", INT, "1000", at_least(0)),
    Definition("streams.session.timeout.ms", INT, "45000", at_least(1)),
    Definition("streams.heartbeat.interval.ms", INT, "5000", at_least(1)),
    Definition("streams.num.standby.replicas", INT, "0", at_least(0)),
    Definition("streams.initial.rebalance.delay.ms", INT, "3000", at_least(0)),
    Definition("streams.assignment.interval.ms", INT, "1000", at_least(0)),
)
