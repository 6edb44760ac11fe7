"""The rows and columns of the matrix: every client times every case, and the reasons for omitted pairs."""

from __future__ import annotations

CLIENTS = ("kafka-python", "librdkafka", "aiokafka", "kcat", "java-tools", "spark", "raw-frames")

# case name -> what it checks
CASES = {
    "codecs": "none, gzip, snappy, lz4, zstd: records back, and stored in the codec that was sent",
    "headers": "header order, repeated names, empty and null values",
    "nulls": "null and empty keys and values",
    "one-megabyte": "records of 1,000,000 bytes",
    "many-partitions": "a topic of 50 partitions (20 with Spark)",
    "key-hashing": "which of 7 partitions each of 100 keys lands on",
    "seek-and-replay": "seek forward, to the beginning, to the end; read again",
    "broadcast": "two consumers without a group see everything",
    "two-groups": "two groups each see everything and commit by themselves",
    "take-over": "N+1 consumers on N partitions; one is killed",
    "crash-resume": "commit, kill -9 the broker, resume at the commit",
    "idempotent-retry": "a retried batch is stored once",
    "offsets-by-time": "timestamps and the offsets found by them",
    "unknown-topic": "missing topics, bad names, missing partitions",
    "bad-crc": "a record batch whose CRC is wrong",
    "oversized-record": "a record larger than max.message.bytes",
    "transactions": "commit, abort, offsets in a transaction, a fenced producer, what read_committed sees",
    "configs": "create with, describe, alter and delete configs",
    "consumer-protocol": "KIP-848 groups: take-over, kill -9 of the broker, regular expressions, changing the protocol",
    "concurrent-rebalances": "members join and leave at once; no live member is forgotten",
    "administration": "log dirs, quotas, users, features, leaders, reassignments, ACLs, tokens, the quorum",
    "tools": "performance tools, API versions, listing and deleting topics",
    "bad-frames": "unknown keys and versions, impossible lengths, half frames: Kafka's answer or a close",
}

_NO_ADMIN = "kcat has no admin commands"
_SPARK_NO_GROUP = "Spark's source reads without a group"
_NOT_SPOKEN = "the client does not speak it"
_SPARK_FIXED = "Spark offers no such operation"
_RAW = "the frames are below this: real clients cover it"

NOT_APPLICABLE: dict[tuple[str, str], str] = {
    **{
        (client, "bad-crc"): "no client sends a wrong CRC; raw frames do"
        for client in CLIENTS
        if client != "raw-frames"
    },
    **{
        (client, "bad-frames"): "no client sends such frames; raw frames do"
        for client in CLIENTS
        if client != "raw-frames"
    },
    **{
        (client, row): "these are Java tools"
        for client in CLIENTS
        for row in ("tools", "administration")
        if client != "java-tools"
    },
    ("kcat", "configs"): _NO_ADMIN,
    ("kafka-python", "consumer-protocol"): _NOT_SPOKEN,
    ("aiokafka", "consumer-protocol"): _NOT_SPOKEN,
    ("kcat", "consumer-protocol"): "librdkafka's protocol, covered there",
    ("spark", "consumer-protocol"): _SPARK_NO_GROUP,
    ("raw-frames", "consumer-protocol"): "every version of every request is compared in test_every_version.py",
    ("kcat", "concurrent-rebalances"): "its rebalances are librdkafka's, covered there",
    ("java-tools", "concurrent-rebalances"): "a JVM for each member would take minutes; raw frames cover the protocol",
    ("spark", "broadcast"): "every Spark query reads without a group already",
    ("spark", "two-groups"): _SPARK_NO_GROUP,
    ("spark", "take-over"): _SPARK_NO_GROUP,
    ("spark", "concurrent-rebalances"): _SPARK_NO_GROUP,
    ("spark", "configs"): _SPARK_FIXED,
    (
        "spark",
        "idempotent-retry",
    ): "the Java producer under the sink retries; a sink task cannot be made to from outside",
    (
        "java-tools",
        "idempotent-retry",
    ): "the console producer ends with its input; librdkafka and raw frames cover retries",
    ("kcat", "transactions"): "kcat produces outside of transactions",
    ("spark", "transactions"): "Spark's sink writes outside of transactions",
    ("raw-frames", "transactions"): "every version of every request is compared in test_every_version.py",
    ("raw-frames", "codecs"): _RAW,
    ("raw-frames", "headers"): _RAW,
    ("raw-frames", "nulls"): _RAW,
    ("raw-frames", "one-megabyte"): _RAW,
    ("raw-frames", "many-partitions"): _RAW,
    ("raw-frames", "key-hashing"): "partitioners live in clients",
    ("raw-frames", "seek-and-replay"): _RAW,
    ("raw-frames", "broadcast"): _RAW,
    ("raw-frames", "two-groups"): _RAW,
    ("raw-frames", "take-over"): _RAW,
    ("raw-frames", "crash-resume"): _RAW,
    ("raw-frames", "configs"): "the clients with an admin interface cover it",
}
