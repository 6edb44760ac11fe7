"""The defaults that differ from Kafka's, and why. Tests check that all others are the same."""

from typing import Final

from odradek.wire.values import immutable


@immutable
class DefaultDifference:
    """One default that differs. `scope` is "broker" or "topic"; None means "no default"."""

    scope: str
    name: str
    kafka: str | None
    odradek: str | None
    reason: str


_DURABLE = "A record is acknowledged only once it is durable; Kafka acknowledges what its page cache holds."
_ONE_BROKER = "A single broker works as it is; Kafka needs its sample configuration for that."
_NO_FILE = "A broker starts without any configuration; Kafka demands one."
_FOREVER = "9223372036854775807"

DELIBERATE_DIFFERENCES: Final = (
    DefaultDifference("broker", "log.flush.interval.messages", _FOREVER, "1", _DURABLE),
    DefaultDifference("topic", "flush.messages", _FOREVER, "1", _DURABLE),
    DefaultDifference("broker", "offsets.topic.replication.factor", "3", "1", _ONE_BROKER),
    DefaultDifference("broker", "transaction.state.log.replication.factor", "3", "1", _ONE_BROKER),
    DefaultDifference("broker", "transaction.state.log.min.isr", "2", "1", _ONE_BROKER),
    DefaultDifference("broker", "share.coordinator.state.topic.replication.factor", "3", "1", _ONE_BROKER),
    DefaultDifference("broker", "share.coordinator.state.topic.min.isr", "2", "1", _ONE_BROKER),
    DefaultDifference("broker", "node.id", None, "1", _NO_FILE),
    DefaultDifference("broker", "process.roles", None, "broker,controller", _NO_FILE),
    DefaultDifference("broker", "controller.listener.names", None, "CONTROLLER", _NO_FILE),
    DefaultDifference(
        "broker",
        "queued.max.request.bytes",
        "-1",
        "536870912",
        "Memory stays bounded however many clients send at once; five of the largest requests fit.",
    ),
    DefaultDifference(
        "broker",
        "log.dir",
        "/tmp/kafka-logs",  # noqa: S108 - Kafka's
        "odradek-data",
        "Data does not belong where a restart may delete it, nor in a directory that a Kafka may use.",
    ),
)
