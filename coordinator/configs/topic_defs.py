"""Every topic config of Apache Kafka 4.3.1 with Kafka's own defaults: a pure table.

For the defaults that deliberately differ see `odradek.coordinator.configs.differences`.
"""

from typing import Final

from odradek.coordinator.configs.definition import ConfigType, Definition
from odradek.coordinator.configs.validators import RangeOr, ThrottledReplicas, at_least, between, list_of, one_of

BOOLEAN: Final = ConfigType.BOOLEAN
DOUBLE: Final = ConfigType.DOUBLE
INT: Final = ConfigType.INT
LIST: Final = ConfigType.LIST
LONG: Final = ConfigType.LONG
STRING: Final = ConfigType.STRING

TOPIC_DEFINITIONS: Final = (
    Definition(
        "segment.bytes",
        INT,
        "1073741824",
        at_least(1048576),
        doc="Size at which the active segment is sealed and a new one begun.",
    ),
    Definition(
        "segment.ms",
        LONG,
        "604800000",
        at_least(1),
        doc="Age at which the active segment is sealed even when it is not full.",
    ),
    Definition(
        "segment.jitter.ms",
        LONG,
        "0",
        at_least(0),
        doc="Upper bound of the random time by which sealing by age is brought forward, to spread the load.",
    ),
    Definition(
        "segment.index.bytes",
        INT,
        "10485760",
        at_least(4),
        doc="Size of the offset index in Kafka's file format; accepted, of no effect here.",
    ),
    Definition(
        "flush.messages",
        LONG,
        "9223372036854775807",
        at_least(1),
        doc="Records after which the log is made durable; 1 acknowledges nothing before it is durable.",
    ),
    Definition(
        "flush.ms",
        LONG,
        "9223372036854775807",
        at_least(0),
        doc="Longest time for which a record may stay undurable where flush.messages allows it.",
    ),
    Definition(
        "retention.bytes",
        LONG,
        "-1",
        doc="Size of a partition from which on its oldest segments are deleted; -1 for no limit.",
    ),
    Definition(
        "retention.ms",
        LONG,
        "604800000",
        at_least(-1),
        doc="Age at which sealed segments are deleted; -1 keeps them forever.",
    ),
    Definition(
        "max.message.bytes",
        INT,
        "1048588",
        at_least(0),
        doc="Largest record batch that is accepted, after compression.",
    ),
    Definition(
        "index.interval.bytes",
        INT,
        "4096",
        at_least(0),
        doc="Density of the offset index in Kafka's file format; accepted, of no effect here.",
    ),
    Definition(
        "delete.retention.ms",
        LONG,
        "86400000",
        at_least(0),
        doc="Time for which a compacted log still shows tombstones.",
    ),
    Definition("min.compaction.lag.ms", LONG, "0", at_least(0), doc="Time for which a record is safe from compaction."),
    Definition(
        "max.compaction.lag.ms",
        LONG,
        "9223372036854775807",
        at_least(1),
        doc="Time after which a record is compacted whatever the share of dirty data.",
    ),
    Definition(
        "file.delete.delay.ms",
        LONG,
        "60000",
        at_least(0),
        doc="Time between the removal of a segment from the log and that of its files.",
    ),
    Definition(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        between(0, 1),
        doc="Share of uncompacted data at which compaction starts.",
    ),
    Definition(
        "cleanup.policy",
        LIST,
        "delete",
        list_of("compact", "delete"),
        doc="What happens to old data: delete, compact, or both.",
    ),
    Definition(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        doc="Whether a replica that may lack acknowledged records may become leader.",
    ),
    Definition(
        "min.insync.replicas",
        INT,
        "1",
        at_least(1),
        doc="In-sync replicas that acks=all needs; with fewer, such produce requests are refused.",
    ),
    Definition(
        "compression.type",
        STRING,
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="Codec of stored batches; producer keeps each batch as its producer sent it.",
    ),
    Definition(
        "compression.gzip.level", INT, "-1", RangeOr(1, 9, also=-1), doc="Level where compression.type is gzip."
    ),
    Definition("compression.lz4.level", INT, "9", between(1, 17), doc="Level where compression.type is lz4."),
    Definition("compression.zstd.level", INT, "3", between(-131072, 22), doc="Level where compression.type is zstd."),
    Definition(
        "preallocate",
        BOOLEAN,
        "false",
        doc="Whether Kafka reserves a segment file in advance; accepted, of no effect here.",
    ),
    Definition(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        doc="Whether records carry their producer's time or that of their arrival.",
    ),
    Definition(
        "message.timestamp.before.max.ms",
        LONG,
        "9223372036854775807",
        at_least(0),
        doc="How far a record's timestamp may lie behind the broker's clock.",
    ),
    Definition(
        "message.timestamp.after.max.ms",
        LONG,
        "3600000",
        at_least(0),
        doc="How far a record's timestamp may lie ahead of the broker's clock.",
    ),
    Definition(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        ThrottledReplicas(),
        doc="Replicas whose replication is throttled on the side of the leader.",
    ),
    Definition(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        ThrottledReplicas(),
        doc="Replicas whose replication is throttled on the side of the follower.",
    ),
    Definition(
        "remote.storage.enable",
        BOOLEAN,
        "false",
        doc="Whether old segments move to remote storage; refused, for there is none.",
    ),
    Definition(
        "local.retention.ms",
        LONG,
        "-2",
        at_least(-2),
        doc="Age at which segments copied to remote storage are deleted here; -2 follows retention.ms.",
    ),
    Definition(
        "local.retention.bytes",
        LONG,
        "-2",
        at_least(-2),
        doc="Size from which on segments copied to remote storage are deleted here; -2 follows retention.bytes.",
    ),
    Definition(
        "remote.log.copy.disable", BOOLEAN, "false", doc="Whether the remote storage of the topic is read-only."
    ),
    Definition(
        "remote.log.delete.on.disable",
        BOOLEAN,
        "false",
        doc="Whether remote data is deleted when remote storage is switched off.",
    ),
    Definition("internal.segment.bytes", INT, None, internal=True),
)
