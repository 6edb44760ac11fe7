"""The Java client, from the same jars as the real broker, called from Python (Py4J): no program to compile."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from py4j.clientserver import JavaClient
from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions import captured

from compat_tests.clients import Deadline
from compat_tests.real_kafka import jars_folder, java_command

_CLIENTS = "org.apache.kafka.clients"
_STRINGS = {
    f"{kind}.{side}": f"org.apache.kafka.common.serialization.String{side.capitalize()}"
    for kind in ("key", "value")
    for side in ("serializer", "deserializer")
}


def _convert_only_spark_exceptions() -> None:
    """Makes PySpark leave the exceptions of other JVMs alone.

    A Spark session replaces Py4J's conversion of results in the whole process, and takes each exception for an object
    of its own JVM: the id of a Kafka exception then means an unrelated object, for which the conversion may fail.
    Spark's gateway is a `JavaClient`, that of `JavaVm` is not.
    """
    converting = captured.capture_sql_exception
    if hasattr(converting, "__wrapped__"):
        return

    @wraps(converting)
    def only_sparks(get_result: Callable[..., Any]) -> Callable[..., Any]:
        get_sparks = converting(get_result)

        def result(answer: str, gateway: Any, *rest: Any) -> Any:
            get = get_sparks if isinstance(gateway, JavaClient) else get_result
            return get(answer, gateway, *rest)

        return result

    captured.capture_sql_exception = only_sparks
    captured.install_exception_handler()  # again, as a session may have installed it before


class JavaError(Exception):
    """An exception of the Java client; `name` is its class."""

    def __init__(self, error: Py4JJavaError) -> None:
        thrown = error.java_exception
        while thrown.getClass().getSimpleName() in {"ExecutionException", "KafkaException"} and thrown.getCause():
            thrown = thrown.getCause()
        self.name: str = thrown.getClass().getSimpleName()
        super().__init__(f"{self.name}: {thrown.getMessage()}")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise JavaError(error) from None


class JavaVm:
    """One JVM for many clients; every calling Python thread has its own thread in it."""

    def __init__(self) -> None:
        _convert_only_spark_exceptions()
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        options.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
        port = launch_gateway(
            jarpath=find_jar_path(),
            classpath=f"{jars_folder() / 'kafka'}/*",
            javaopts=options,
            java_path=java_command(),
            die_on_exit=True,
            redirect_stdout=subprocess.DEVNULL,
            redirect_stderr=subprocess.DEVNULL,
        )
        assert isinstance(port, int)
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))

    def close(self) -> None:
        """Ends the JVM."""
        self._gateway.shutdown()

    def new(self, name: str, *arguments: Any) -> Any:
        """A Java object of this class."""
        return getattr(self._gateway.jvm, name)(*arguments)

    def admin(self, bootstrap: str) -> Any:
        """A Java Admin client, which the caller closes."""
        settings = self.properties({"bootstrap.servers": bootstrap})
        return self._gateway.jvm.org.apache.kafka.clients.admin.Admin.create(settings)  # type: ignore[union-attr]

    def properties(self, settings: Mapping[str, str]) -> Any:
        """A `java.util.HashMap` with strings for keys and values."""
        table = self.new("java.util.HashMap")
        for key, value in {**_STRINGS, **settings}.items():
            table.put(key, value)
        return table

    def partition(self, topic: str, index: int) -> Any:
        """A TopicPartition."""
        return self.new("org.apache.kafka.common.TopicPartition", topic, index)

    def seconds(self, count: int) -> Any:
        """A Duration."""
        return self.millis(1000 * count)

    def millis(self, count: int) -> Any:
        """A Duration."""
        return self._gateway.jvm.java.time.Duration.ofMillis(count)  # type: ignore[union-attr]


class JavaProducer:
    """A KafkaProducer, transactional if it has a transactional id. Every method raises JavaError."""

    def __init__(self, java: JavaVm, bootstrap: str, transactional_id: str | None, **settings: str) -> None:
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        properties["bootstrap.servers"] = bootstrap
        if transactional_id is not None:
            properties["transactional.id"] = transactional_id
        with _translated():
            self._java = java
            self._producer = java.new(f"{_CLIENTS}.producer.KafkaProducer", java.properties(properties))

    def init(self) -> None:
        """Initializes transactions, which fences an earlier producer with the id."""
        with _translated():
            self._producer.initTransactions()

    def begin(self) -> None:
        """Begins a transaction."""
        with _translated():
            self._producer.beginTransaction()

    def send(self, topic: str, partition: int, value: str) -> Any:
        """Queues a record; the result is a Java Future for `offset_of`."""
        with _translated():
            record = self._java.new(f"{_CLIENTS}.producer.ProducerRecord", topic, partition, None, value)
            return self._producer.send(record)

    @staticmethod
    def offset_of(sent: Any) -> int:
        """Waits until it is acknowledged."""
        with _translated():
            return sent.get().offset()

    def flush(self) -> None:
        """Waits until all records are acknowledged or refused."""
        with _translated():
            self._producer.flush()

    def send_offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Adds a group's offset to the transaction."""
        with _translated():
            offsets = self._java.new("java.util.HashMap")
            metadata = self._java.new(f"{_CLIENTS}.consumer.OffsetAndMetadata", offset)
            offsets.put(self._java.partition(topic, partition), metadata)
            member = self._java.new(f"{_CLIENTS}.consumer.ConsumerGroupMetadata", group)
            self._producer.sendOffsetsToTransaction(offsets, member)

    def end(self, *, committed: bool) -> None:
        """Commits or aborts."""
        with _translated():
            if committed:
                self._producer.commitTransaction()
            else:
                self._producer.abortTransaction()

    def close(self) -> None:
        """Closes without waiting."""
        with _translated():
            self._producer.close(self._java.seconds(0))


class JavaConsumer:
    """A KafkaConsumer with assigned or subscribed partitions, or for a group's offsets only."""

    def __init__(self, java: JavaVm, bootstrap: str, **settings: str) -> None:
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        common = {"bootstrap.servers": bootstrap, "enable.auto.commit": "false"}
        with _translated():
            self._java = java
            self._consumer = java.new(f"{_CLIENTS}.consumer.KafkaConsumer", java.properties({**common, **properties}))

    def committed(self, topic: str, partition: int) -> int | None:
        """The group's committed offset, None if there is none."""
        key = self._java.partition(topic, partition)
        with _translated():
            found = self._consumer.committed(self._partitions(key)).get(key)
            return None if found is None else found.offset()

    def read_to_end(self, topic: str, partition: int) -> list[tuple[int, str]]:
        """(offset, value) of every record from the beginning to the partition's end for this consumer."""
        key = self._java.partition(topic, partition)
        assigned = self._partitions(key)
        found: list[tuple[int, str]] = []
        deadline = Deadline("the end of the partition")
        with _translated():
            self._consumer.assign(assigned)
            self._consumer.seekToBeginning(assigned)
            end = self._consumer.endOffsets(assigned).get(key)
            while self._consumer.position(key) < end:
                polled = self._consumer.poll(self._java.seconds(1))
                found += [(each.offset(), each.value()) for each in polled.records(key)]
                deadline.check(found)
        return found

    def assign_from_beginning(self, topic: str, partitions: int) -> None:
        """Assigns all partitions of a topic."""
        assigned = self._partitions(*[self._java.partition(topic, index) for index in range(partitions)])
        with _translated():
            self._consumer.assign(assigned)
            self._consumer.seekToBeginning(assigned)

    def subscribe(self, topic: str) -> None:
        """Joins the group in the settings."""
        topics = self._java.new("java.util.HashSet")
        topics.add(topic)
        with _translated():
            self._consumer.subscribe(topics)

    def commit(self) -> None:
        """Commits the position of `poll`."""
        with _translated():
            self._consumer.commitSync(self._java.seconds(10))

    def assigned(self) -> set[int]:
        """The assigned partitions of its only topic."""
        with _translated():
            return {each.partition() for each in self._consumer.assignment()}

    def poll(self) -> list[tuple[int, int, str]]:
        """(partition, offset, value) of the records that arrive within 200 ms."""
        with _translated():
            records = self._consumer.poll(self._java.millis(200)).iterator()
            found: list[tuple[int, int, str]] = []
            while records.hasNext():
                each = records.next()
                found.append((each.partition(), each.offset(), each.value()))
        return found

    def _partitions(self, *partitions: Any) -> Any:
        found = self._java.new("java.util.HashSet")
        for partition in partitions:
            found.add(partition)
        return found

    def close(self) -> None:
        with _translated():
            self._consumer.close()


def outcome(work: Any) -> str:
    """NONE, or the name of the Java exception."""
    try:
        work()
    except JavaError as error:
        return error.name
    return "NONE"
