"""kafka-python for the commands: imported at its first use, with types, and with clients that a `with` block closes.

Everything here works with any Kafka. kafka-python has no types; the protocols below declare what the commands use.
"""

# ruff: noqa: ANN401, D102 - kafka-python has no types, and its own documentation describes its methods

import importlib
import socket
import time
import warnings
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import click

from odradek.gateway.cli.errors import CliError, UnreachableError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
RETRY_PAUSE_S = 0.1
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

T = TypeVar("T")


class TopicPartition(NamedTuple):
    """One partition of one topic; equal to kafka-python's own tuple of that name."""

    topic: str
    partition: int


class OffsetAndTimestamp(Protocol):
    """An answer of ListOffsets; `offset` is -1 if no record matches."""

    @property
    def offset(self) -> int: ...


class CommittedOffset(Protocol):
    """A group's committed offset; -1 if there is none."""

    @property
    def offset(self) -> int: ...
    @property
    def metadata(self) -> str | None: ...


class Record(Protocol):
    """One consumed record; `timestamp` is in milliseconds since the epoch."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


class SentRecord(Protocol):
    """The pending acknowledgement of one sent record."""

    is_done: bool

    def get(self, timeout: float | None = None) -> Any: ...


class Admin(Protocol):
    """The methods that the commands use of `KafkaAdminClient`."""

    def describe_cluster(self) -> dict[str, Any]: ...
    def describe_topics(self, topics: Sequence[str] | None = None) -> list[dict[str, Any]]: ...
    def create_topics(
        self, new_topics: Mapping[str, Any], *, validate_only: bool, raise_errors: bool
    ) -> dict[str, Any]: ...
    def delete_topics(self, topics: Sequence[str], *, raise_errors: bool) -> dict[str, Any]: ...
    def create_partitions(self, topic_partitions: Mapping[str, int], *, raise_errors: bool) -> Any: ...
    def describe_configs(
        self, config_resources: Sequence[Any], *, config_filter: str
    ) -> dict[str, dict[str, dict[str, dict[str, Any]]]]: ...
    def alter_configs(
        self, config_resources: Sequence[Any], *, raise_on_unknown: bool, validate_only: bool = False
    ) -> dict[str, Any]: ...
    def list_groups(
        self, *, states_filter: Sequence[str] | None = None, types_filter: Sequence[str] | None = None
    ) -> list[dict[str, Any]]: ...
    def describe_groups(self, group_ids: Sequence[str]) -> dict[str, dict[str, Any]]: ...
    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, str]: ...
    def list_group_offsets(self, group_specs: str) -> dict[str, dict[TopicPartition, CommittedOffset]]: ...
    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, Any]
    ) -> dict[TopicPartition, Any]: ...
    def delete_group_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Any]: ...
    def describe_metadata_quorum(self) -> dict[str, Any]: ...
    def elect_leaders(
        self, election_type: int, topic_partitions: Mapping[str, Sequence[int]] | None = None, *, raise_errors: bool
    ) -> Any: ...
    def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, Any]: ...
    def list_partition_reassignments(self) -> dict[TopicPartition, dict[str, Any]]: ...
    def describe_features(self) -> dict[str, dict[str, Any]]: ...
    def update_features(
        self, feature_updates: Mapping[str, tuple[int, int]], validate_only: bool = False
    ) -> dict[str, str]: ...
    def list_partition_offsets(
        self, topic_partition_specs: Mapping[TopicPartition, Any]
    ) -> dict[TopicPartition, OffsetAndTimestamp]: ...
    def list_transactions(
        self,
        *,
        state_filters: Sequence[str] | None = None,
        producer_id_filters: Sequence[int] | None = None,
        duration_filter_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> dict[int, list[Any]]: ...
    def describe_transactions(self, transactional_ids: Sequence[str]) -> dict[str, Any]: ...
    def describe_producers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Any]: ...
    def abort_transaction(self, spec: Any) -> None: ...
    def close(self) -> None: ...


class Consumer(Protocol):
    """The methods that the commands use of `KafkaConsumer`."""

    def partitions_for_topic(self, topic: str) -> set[int] | None: ...
    def assign(self, partitions: Sequence[TopicPartition]) -> None: ...
    def assignment(self) -> set[TopicPartition]: ...
    def subscribe(self, topics: Sequence[str], *, listener: Any = None) -> None: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int | None: ...
    def poll(self, timeout_ms: int, max_records: int | None = None) -> dict[TopicPartition, list[Record]]: ...
    def pause(self, *partitions: TopicPartition) -> None: ...
    def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]: ...
    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]: ...
    def offsets_for_times(
        self, timestamps: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]: ...
    def commit(self, offsets: Mapping[TopicPartition, Any], *, timeout_ms: int) -> None: ...
    def commit_async(self, offsets: Mapping[TopicPartition, Any]) -> Awaitable[Any]: ...
    def group_metadata(self) -> Any: ...
    def close(self, *, autocommit: bool) -> None: ...


class Producer(Protocol):
    """The methods that the commands use of `KafkaProducer`."""

    def partitions_for(self, topic: str) -> set[int]: ...
    def send(
        self,
        topic: str,
        *,
        value: bytes | None,
        key: bytes | None,
        headers: list[tuple[str, bytes]],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> SentRecord: ...
    def flush(self, timeout: float | None = None) -> None: ...
    def close(self, timeout: float | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that a command connects to: comma-separated `host:port`s, a time limit, settings for kafka-python."""

    bootstrap: str
    timeout_ms: int = 15_000
    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])


def library() -> Any:
    """The `kafka` package, imported at the first call."""
    with warnings.catch_warnings():
        # kafka-python 3.0 reads its schemas through an importlib call that Python 3.11 deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("kafka.admin")
        return importlib.import_module("kafka")


def topic_partition(topic: str, partition: int) -> TopicPartition:
    """kafka-python's own tuple, which its clients require."""
    return library().TopicPartition(topic, partition)


OWN_TIMEOUT = "Request timed out after"
"""How the message of kafka-python's own timeout begins; a broker's REQUEST_TIMED_OUT has another message."""


@contextmanager
def open_admin(target: Target) -> Generator[Admin]:
    """An admin client on `target`.

    Raises `UnreachableError` if no broker answers. In the block, a request that is not answered within
    `target.timeout_ms` becomes a `CliError`.
    """
    admin = _construct(library().KafkaAdminClient, target, {"request_timeout_ms": target.timeout_ms})
    try:
        yield admin
    except library().errors.RequestTimedOutError as error:
        if OWN_TIMEOUT not in str(error):
            raise  # the broker's answer
        limit = f"within {target.timeout_ms / 1000:g} s (--timeout)"
        raise CliError(f"no answer from the cluster {limit}; what was asked for may be done all the same") from error
    finally:
        admin.close()


@contextmanager
def open_consumer(target: Target, **settings: Any) -> Generator[Consumer]:
    """A consumer on `target` that never creates topics, and commits only when `commit` is called."""
    fixed = {"enable_auto_commit": False, "allow_auto_create_topics": False, "metrics_enabled": False}
    consumer = _construct(library().KafkaConsumer, target, {**fixed, **settings})
    try:
        yield consumer
    finally:
        consumer.close(autocommit=False)


@contextmanager
def open_producer(target: Target, **settings: Any) -> Generator[Producer]:
    """A producer on `target`. The end of the block waits until all records are sent, unless an exception ends it."""
    fixed = {"metrics_enabled": False, "max_block_ms": target.timeout_ms}
    producer = _construct(library().KafkaProducer, target, {**fixed, **settings})
    try:
        yield producer
    except BaseException:
        producer.close(timeout=0)
        raise
    producer.close()


def retrying(target: Target, call: Callable[[], T]) -> T:
    """Call until the call succeeds, fails with a permanent error, or `target.timeout_ms` have passed.

    A coordinator that is loading or being elected answers with retriable errors for a short time.
    """
    errors = importlib.import_module("kafka.errors")
    deadline = time.monotonic() + target.timeout_ms / 1000
    while True:
        try:
            return call()
        except errors.KafkaError as error:
            if not error.retriable or time.monotonic() >= deadline or _is_permanent(error):
                raise
        time.sleep(RETRY_PAUSE_S)


def send(admin: Admin, request: Any, *, node: int | None = None, timeout_ms: int | None = None) -> Any:
    """Send to a broker a request for which kafka-python has no method that does so; returns the response.

    Without `node` any broker is asked, and without `timeout_ms` the limit is the admin client's.
    """
    manager = cast("Any", admin)._manager  # noqa: SLF001 - it has no public way to send one
    return manager.run(manager.send, request, node, timeout_ms)


def _is_permanent(error: Any) -> bool:
    # kafka-python treats a missing topic as retriable, since metadata may lag; a command must report it at once
    return getattr(error, "errno", None) == 3


def _construct(client: Callable[..., Any], target: Target, settings: Mapping[str, Any]) -> Any:
    check_reachable(target)
    _check_properties(getattr(client, "DEFAULT_CONFIG", {}), target.properties)
    common = {"bootstrap_servers": target.bootstrap.split(","), "bootstrap_timeout_ms": target.timeout_ms}
    try:
        return client(**{**common, "client_id": "odradek-cli", **settings, **target.properties})
    except library().errors.KafkaTimeoutError as error:
        raise silent_broker(target) from error
    except (ValueError, AssertionError, RuntimeError, TypeError) as error:
        raise CliError(str(error)) from error


def _check_properties(defaults: Mapping[str, Any], properties: Mapping[str, Any]) -> None:
    # kafka-python accepts any text as a number and fails later, and connects without TLS for an unknown protocol.
    for name, value in properties.items():
        dotted, default = name.replace("_", "."), defaults.get(name)
        if defaults and name not in defaults:  # kafka-python's own message would print the value, maybe a password
            raise CliError(f"-X {dotted}: kafka-python's client has no such setting")
        if isinstance(default, bool) and not isinstance(value, bool):
            raise CliError(f"-X {dotted} is true or false, not {value!r}")
        if isinstance(default, int) and not isinstance(value, int) and name != "acks":  # acks may also be `all`
            raise CliError(f"-X {dotted} is a number, not {value!r}")
    if (protocol := properties.get("security_protocol", PROTOCOLS[0])) not in PROTOCOLS:
        raise CliError(f"-X security.protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")


def silent_broker(target: Target) -> UnreachableError:
    """The error for a cluster that accepts connections and does not answer in time."""
    seconds = target.timeout_ms / 1000
    return UnreachableError(f"{target.bootstrap} did not answer as a Kafka broker within {seconds:g} s")


def check_reachable(target: Target) -> None:
    """Raise `UnreachableError` if no address accepts a connection; client libraries would retry until their timeout."""
    if {"proxy_url", "socks5_proxy"} & set(target.properties):
        return  # a proxy may reach addresses that this machine cannot
    failures = [failure for address in target.bootstrap.split(",") if (failure := _connect_failure(target, address))]
    if len(failures) == len(target.bootstrap.split(",")):
        hint = "start one with `odradek serve`, or name another with --bootstrap"
        raise UnreachableError(f"no broker answers at {'; '.join(failures)} ({hint})")


def _connect_failure(target: Target, address: str) -> str | None:
    host, port = split_address(address)
    try:
        socket.create_connection((host, port), timeout=target.timeout_ms / 1000).close()
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    return None


def split_address(address: str, default_port: int = 9092) -> tuple[str, int]:
    """Split `host:port`, `[v6]:port` or a bare host; anything else is wrong usage."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address.strip(), str(default_port)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"{address!r} is not HOST:PORT", param_hint="--bootstrap")
    return host.strip("[]"), int(port)
