"""Odradek's own broker configs, all under `odradek.` so that they can never meet one of Kafka's: a pure table."""

from typing import Final

from coordinator.configs.definition import ConfigType, Definition, Importance, UpdateMode
from coordinator.configs.validators import NonEmpty, at_least, one_of

BOOLEAN: Final = ConfigType.BOOLEAN
INT: Final = ConfigType.INT
LONG: Final = ConfigType.LONG
STRING: Final = ConfigType.STRING
HIGH: Final = Importance.HIGH
LOW: Final = Importance.LOW
READ_ONLY: Final = UpdateMode.READ_ONLY

ODRADEK_DEFINITIONS: Final = (
    Definition(
        "odradek.storage",
        STRING,
        None,
        NonEmpty(),
        importance=HIGH,
        mode=READ_ONLY,
        doc="Where logs are kept, as a URL: lmdb:///var/lib/odradek, memory://; without it, the first of log.dirs.",
    ),
    Definition(
        "odradek.commit.threads",
        INT,
        "4",
        at_least(1),
        mode=READ_ONLY,
        doc="Threads that commit segments; so many segments commit at the same time.",
    ),
    Definition(
        "odradek.commit.max.bytes",
        INT,
        "16777216",
        at_least(1),
        mode=READ_ONLY,
        doc="Bytes of batches that one commit of a segment takes at most.",
    ),
    Definition(
        "odradek.commit.max.pending.bytes",
        LONG,
        "134217728",
        at_least(1),
        mode=READ_ONLY,
        doc="Bytes of batches that may wait for their commit; beyond it, producers wait at their socket.",
    ),
    Definition(
        "odradek.connection.max.in.flight.requests",
        INT,
        "64",
        at_least(1),
        mode=READ_ONLY,
        doc="Requests of one connection that may be under way; beyond it, no more is read from its socket.",
    ),
    Definition(
        "odradek.connection.write.timeout.ms",
        INT,
        "60000",
        at_least(1),
        mode=READ_ONLY,
        doc="Time after which a connection that takes none of its responses is closed.",
    ),
    Definition(
        "odradek.drain.timeout.ms",
        INT,
        "30000",
        at_least(0),
        mode=READ_ONLY,
        doc="Time that requests under way have to finish after SIGTERM.",
    ),
    Definition(
        "odradek.fetch.max.wait.ms",
        INT,
        "300000",
        at_least(0),
        mode=READ_ONLY,
        doc="Longest wait of a fetch, whatever its max_wait_ms.",
    ),
    Definition(
        "odradek.fetch.max.waiting",
        INT,
        "10000",
        at_least(1),
        mode=READ_ONLY,
        doc="Fetches that may wait for data at the same time; one more is answered at once.",
    ),
    Definition(
        "odradek.topics.max",
        INT,
        "10000",
        at_least(1),
        mode=READ_ONLY,
        doc="Topics that the cluster takes; creating one more is refused with POLICY_VIOLATION.",
    ),
    Definition(
        "odradek.partitions.max",
        INT,
        "50000",
        at_least(1),
        mode=READ_ONLY,
        doc="Partitions that the cluster takes; creating more is refused with POLICY_VIOLATION.",
    ),
    Definition(
        "odradek.coordinator.mailbox.size",
        INT,
        "10000",
        at_least(1),
        mode=READ_ONLY,
        doc="Requests that may wait for one coordinator shard; one more is answered COORDINATOR_LOAD_IN_PROGRESS.",
    ),
    Definition(
        "odradek.lmdb.map.max.bytes",
        LONG,
        "1099511627776",
        at_least(1048576),
        importance=LOW,
        mode=READ_ONLY,
        doc="Address space that one segment's map may grow to.",
    ),
    Definition(
        "odradek.log.level",
        STRING,
        "INFO",
        one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        importance=LOW,
        mode=READ_ONLY,
        doc="What is logged.",
    ),
    Definition(
        "odradek.log.format",
        STRING,
        "text",
        one_of("text", "json"),
        importance=LOW,
        mode=READ_ONLY,
        doc="How log lines look.",
    ),
)
