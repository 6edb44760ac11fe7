"""Odradek's own configs, all under `odradek.` so that they can never collide with one of Kafka's: a pure table.

A new broker config gets a field in `gateway/config/broker_config.py` that code reads, and a line in docs/settings.md by
`odradek configs list --markdown > docs/settings.md`; tests/coordinator/configs/test_effects.py checks both.
"""

from typing import Final

from odradek.coordinator.configs.definition import ConfigType, Definition, Importance, UpdateMode
from odradek.coordinator.configs.validators import NonEmpty, at_least, between, one_of
from odradek.wire.releases import RELEASES

INT: Final = ConfigType.INT
LONG: Final = ConfigType.LONG
BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
PASSWORD: Final = ConfigType.PASSWORD
HIGH: Final = Importance.HIGH
READ_ONLY: Final = UpdateMode.READ_ONLY

ODRADEK_DEFINITIONS: Final = (
    Definition(
        "odradek.storage",
        PASSWORD,  # a database's URL may contain one
        None,
        NonEmpty(),
        importance=HIGH,
        mode=READ_ONLY,
        doc="Where logs are kept, as a URL: lmdb:///var/lib/odradek, memory://; without it, the first of log.dirs.",
    ),
    Definition(
        "odradek.cluster.id",
        STRING,
        None,
        NonEmpty(),
        mode=READ_ONLY,
        doc="The id that a new cluster takes, else a random one; a broker whose data have another id does not start.",
    ),
    Definition(
        "odradek.commit.threads",
        INT,
        "16",
        at_least(1),
        mode=READ_ONLY,
        doc="Threads that commit segments; so many segments commit at the same time. More are faster with many "
        "partitions on a disk whose sync takes 10 ms.",
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
        "odradek.log.retry.backoff.ms",
        INT,
        "100",
        at_least(0),
        mode=READ_ONLY,
        doc="Pause after the second failed write or opening of a log; it doubles with each that follows.",
    ),
    Definition(
        "odradek.log.retry.backoff.max.ms",
        INT,
        "10000",
        at_least(0),
        mode=READ_ONLY,
        doc="Longest pause between two attempts to write to a log whose disk fails, or to open it.",
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
        "odradek.emulated.release",
        STRING,
        None,
        one_of(*RELEASES),
        mode=READ_ONLY,
        doc="Kafka release, such as 2.8, whose versions of the APIs are all that clients are offered; for tests.",
    ),
    Definition(
        "odradek.inspect.max.decompressed.bytes",
        INT,
        "104857600",
        between(1, 104857600),
        mode=READ_ONLY,
        doc="Bytes to which the records of a batch may decompress where the broker has to look into them.",
    ),
    Definition(
        "odradek.inspect.threads",
        INT,
        "2",
        at_least(1),
        mode=READ_ONLY,
        doc="Threads that look into records for clients, beside those that commit; other such requests wait.",
    ),
    Definition(
        "odradek.loop.stall.warn.ms",
        INT,
        "100",
        at_least(1),
        mode=READ_ONLY,
        doc="Time for which the event loop may be held up, all clients waiting, before it is counted and logged.",
    ),
    Definition(
        "odradek.metrics.listen",
        STRING,
        None,
        NonEmpty(),
        mode=READ_ONLY,
        doc="HOST:PORT of the endpoint for Prometheus and health checks (/metrics, /health/live, /health/ready), which "
        "there is not without it. It needs pip install 'odradek[metrics]'.",
    ),
    Definition(
        "odradek.log.max.open.files",
        INT,
        "30000",
        at_least(8),
        mode=READ_ONLY,
        doc="File descriptors for open logs, 3 for the newest segment of each and 1 for an older one, at most a "
        "quarter of what the process may have (ulimit -n); beyond it, the least recently used are closed until their "
        "next use. A process may have 65,530 memory maps (vm.max_map_count), of which a log takes 4.",
    ),
    Definition(
        "odradek.log.idle.close.ms",
        LONG,
        "300000",
        at_least(1),
        mode=READ_ONLY,
        doc="Time after which the files of an unused log are closed until it is used; at most twice as long.",
    ),
    Definition(
        "odradek.outbox.poll.interval.ms",
        LONG,
        "1000",
        at_least(1),
        mode=READ_ONLY,
        doc="Time after which the outbox of a PostgreSQL store is looked at although no notification came.",
    ),
    Definition(
        "odradek.regex.threads",
        INT,
        "1",
        at_least(1),
        mode=READ_ONLY,
        doc="Threads that match clients' regular expressions, beside those that commit; other such requests wait.",
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
        "odradek.import.far.enable",
        BOOLEAN,
        "false",
        mode=READ_ONLY,
        doc="Whether ImportBatches takes offsets and producer ids of 2^48 and more, after which few or none are left.",
    ),
)

ODRADEK_TOPIC_DEFINITIONS: Final = (
    Definition(
        "odradek.sql.columns",
        BOOLEAN,
        "false",
        internal=True,  # described only if set, since descriptions of topics must look like Kafka's
        doc="Keep the topic's records as rows of a table as well, in a SQL database; without effect in other stores.",
    ),
)
