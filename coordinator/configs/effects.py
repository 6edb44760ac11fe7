"""The settings without effect, and why; every other setting has one, and a test finds the code that reads it.

A new setting must either have an effect (production code reads it, by its name or by its field of `BrokerConfig`) or an
entry here; otherwise `tests/coordinator/configs/test_effects.py` fails. docs/settings.md is generated from this table
by `odradek configs list --markdown`.
"""

from typing import Final

from odradek.coordinator.configs.definition import UpdateMode
from odradek.coordinator.configs.protections import PROTECTIONS
from odradek.coordinator.configs.tables import BROKER_CONFIGS, without_listener
from odradek.wire.values import immutable


@immutable
class WithoutEffect:
    """Settings that are accepted and described but change nothing.

    Each of `names` may contain one `*`; `scope` is one of `SCOPES`.
    """

    scope: str
    reason: str
    names: tuple[str, ...]


SCOPES: Final = ("broker", "topic", "group", "client-metrics")

_NODES: Final = "Nodes have nothing that it could tune; requests between them are repeated after fixed pauses."
_NO_INDEX: Final = "A segment is an LMDB environment, without the index files and the preallocation of Kafka's format."
_TIERED: Final = "There is no tiered storage; remote.storage.enable=true is refused for topics."
_NO_JITTER: Final = "Segments roll at their age without jitter: one log's roll does not make others wait."
_NO_DELAY: Final = "Files are unlinked at once; readers keep what they have opened."
_NO_RECOMPRESSION: Final = "Batches stay as their producer compressed them."

WITHOUT_EFFECT: Final = (
    WithoutEffect(
        "broker",
        _NODES,
        (
            "add.partitions.to.txn.retry.*",
            "alter.log.dirs.replication.quota.*",
            "controller.performance.*",
            "controller.quorum.append.linger.ms",
            "controller.quorum.election.backoff.max.ms",
            "controller.socket.timeout.ms",
            "num.replica.alter.*",
            "socket.connection.setup.timeout.max.ms",
        ),
    ),
    WithoutEffect(
        "broker",
        "One thread runs the broker; odradek.commit.threads is the number of those that write.",
        (
            "background.threads",
            "group.coordinator.background.threads",
            "group.coordinator.threads",
            "num.io.threads",
            "num.network.threads",
            "num.recovery.threads.per.data.dir",
        ),
    ),
    WithoutEffect(
        "broker",
        "A request that waits is woken by what it waits for and leaves nothing to purge.",
        ("*purgatory.purge.interval.requests",),
    ),
    WithoutEffect("broker", _TIERED, ("remote.*", "log.local.retention.*", "follower.fetch.last.tiered.offset.enable")),
    WithoutEffect(
        "broker",
        "There are no share groups and streams groups yet.",
        (
            "group.share.*",
            "group.streams.*",
            "share.coordinator.append.linger.ms",
            "share.coordinator.cached.buffer.max.bytes",
            "share.coordinator.cold.partition.snapshot.interval.ms",
            "share.coordinator.load.buffer.size",
            "share.coordinator.snapshot.update.records.per.snapshot",
            "share.coordinator.state.topic.compression.codec",
            "share.coordinator.state.topic.prune.interval.ms",
            "share.coordinator.threads",
            "share.coordinator.write.timeout.ms",
        ),
    ),
    WithoutEffect(
        "broker",
        "It tunes TLS, SASL or the authorizer, which are not there yet; what turns them on is refused.",
        (
            "connection.failed.authentication.delay.ms",
            "delegation.token.expiry.*",
            "delegation.token.max.lifetime.ms",
            "early.start.listeners",
            "sasl.*",
            "ssl.*",
        ),
    ),
    WithoutEffect(
        "broker",
        "Quotas are stored and described, not enforced yet.",
        ("controller.quota.*", "quota.window.*"),
    ),
    WithoutEffect(
        "broker",
        "There are no metrics plug-ins.",
        ("kafka.metrics.*", "metric.reporters", "metrics.*", "telemetry.max.bytes"),
    ),
    WithoutEffect("broker", _NO_INDEX, ("log.index.*", "log.preallocate")),
    WithoutEffect(
        "broker",
        "Offsets are stored in the same transaction as the records, without checkpoint files.",
        ("log.flush.*offset.checkpoint.interval.ms",),
    ),
    WithoutEffect("broker", _NO_JITTER, ("log.roll.jitter.*",)),
    WithoutEffect("broker", _NO_DELAY, ("log.segment.delete.delay.ms",)),
    WithoutEffect("broker", _NO_RECOMPRESSION, ("compression.*",)),
    WithoutEffect(
        "broker",
        "A coordinator's records are written by the commit path that all logs share, uncompressed and as soon as the "
        "commit before is done, and read in chunks of 1 MB; a commit is answered when it is durable or has failed.",
        (
            "group.coordinator.append.linger.ms",
            "group.coordinator.cached.buffer.max.bytes",
            "offsets.load.buffer.size",
            "offsets.topic.compression.codec",
            "transaction.state.log.load.buffer.size",
        ),
    ),
    WithoutEffect(
        "broker",
        "The metadata log is stored with the other logs, and an idle cluster writes nothing to it.",
        (
            "internal.metadata.*",
            "metadata.log.dir",
            "metadata.max.idle.interval.ms",
        ),
    ),
    WithoutEffect(
        "broker",
        "The operating system sizes socket buffers; 1024 clients may wait to be accepted.",
        ("socket.listen.backlog.size", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"),
    ),
    WithoutEffect(
        "broker",
        "odradek.connection.max.in.flight.requests limits requests under way, for each connection.",
        ("queued.max.requests",),
    ),
    WithoutEffect(
        "broker",
        "Data is kept in one directory; a log whose disk fails is opened again when it is used.",
        ("cordoned.log.dirs", "log.dir.failure.timeout.ms"),
    ),
    WithoutEffect(
        "broker",
        "A follower learns the high watermark from its leader, and a leader from its followers' fetches.",
        ("replica.high.watermark.checkpoint.interval.ms",),
    ),
    WithoutEffect("broker", "The kernel sizes the buffers of connections.", ("replica.socket.receive.buffer.bytes",)),
    WithoutEffect(
        "broker",
        "A transaction is aborted the moment its time-out is over.",
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms",),
    ),
    WithoutEffect("broker", "Two-phase commit (KIP-939) is not there yet.", ("transaction.two.phase.commit.enable",)),
    WithoutEffect("broker", "There are no unstable versions.", ("unstable.*",)),
    WithoutEffect("broker", "There is no limit on the time of a start.", ("server.max.startup.time.ms",)),
    WithoutEffect("topic", _NO_INDEX, ("segment.index.bytes", "index.interval.bytes", "preallocate")),
    WithoutEffect("topic", _NO_JITTER, ("segment.jitter.ms",)),
    WithoutEffect("topic", _NO_DELAY, ("file.delete.delay.ms",)),
    WithoutEffect("topic", _NO_RECOMPRESSION, ("compression.*",)),
    WithoutEffect("topic", _TIERED, ("local.retention.*", "remote.*")),
    WithoutEffect("group", "There are no share groups and streams groups yet.", ("share.*", "streams.*")),
    WithoutEffect("client-metrics", "Subscriptions are stored and described; no client is asked for metrics.", ("*",)),
)

ONE_LISTENER: Final = "Settings of a single listener (listener.name.NAME.…) are not read; the broker's own apply."

AT_START: Final = {
    "listeners": "A listener is opened at the start; changed at run time it is stored and described.",
    "listener.security.protocol.map": "Read with listeners, at the start.",
}
"""Settings with an effect that Kafka can change at run time, but that are read here only when the broker starts."""


def without_effect(scope: str, name: str) -> str | None:
    """Returns why the setting changes nothing; None if it has an effect, is refused, or is unknown."""
    if scope == "broker" and without_listener(name) is not None:
        return ONE_LISTENER
    if scope == "broker" and name in PROTECTIONS:
        return None
    for entry in WITHOUT_EFFECT:
        if entry.scope == scope and any(_matches(name, pattern) for pattern in entry.names):
            return entry.reason
    return None


def _matches(name: str, pattern: str) -> bool:
    """Equivalent to fnmatch, which would compile a regular expression for each pattern at a broker's start."""
    head, star, tail = pattern.partition("*")
    if not star:
        return name == pattern
    return name.startswith(head) and name.endswith(tail) and len(name) >= len(head) + len(tail)


def when_changed(name: str) -> str:
    """Returns when a change of a broker setting takes effect: "at once" or "at the next start"."""
    mode = BROKER_CONFIGS[name].mode
    return "at the next start" if mode is UpdateMode.READ_ONLY or name in AT_START else "at once"
