"""The Java client, out of the same jars as the real broker, called from Python (Py4J): no program to compile."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway
from py4j.protocol import Py4JJavaError

from compat_tests.clients import Deadline
from compat_tests.real_kafka import jars_folder, java_command

_CLIENTS = "org.apache.kafka.clients"
_STRINGS = {
    f"{kind}.{side}": f"org.apache.kafka.common.serialization.String{side.capitalize()}"
    for kind in ("key", "value")
    for side in ("serializer", "deserializer")
}


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
    """One JVM for many clients; every Python thread that calls has a thread of its own in it."""

    def __init__(self) -> None:
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
        """End the JVM."""
        self._gateway.shutdown()

    def new(self, name: str, *arguments: Any) -> Any:
        """A Java object of this class."""
        return getattr(self._gateway.jvm, name)(*arguments)

    def admin(self, bootstrap: str) -> Any:
        """A Java Admin client, to be closed."""
        settings = self.properties({"bootstrap.servers": bootstrap})
        return self._gateway.jvm.org.apache.kafka.clients.admin.Admin.create(settings)  # type: ignore[union-attr]

    def properties(self, settings: Mapping[str, str]) -> Any:
        """A `java.util.HashMap` of them, with strings for keys and values."""
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
    """A KafkaProducer, transactional if it has an id for that. Every method raises JavaError."""

    def __init__(self, java: JavaVm, bootstrap: str, transactional_id: str | None, **settings: str) -> None:
        told = {key.replace("_", "."): value for key, value in settings.items()}
        told["bootstrap.servers"] = bootstrap
        if transactional_id is not None:
            told["transactional.id"] = transactional_id
        with _translated():
            self._java = java
            self._producer = java.new(f"{_CLIENTS}.producer.KafkaProducer", java.properties(told))

    def init(self) -> None:
        """Take the id over, and fence its earlier owner."""
        with _translated():
            self._producer.initTransactions()

    def begin(self) -> None:
        """Begin a transaction."""
        with _translated():
            self._producer.beginTransaction()

    def send(self, topic: str, partition: int, value: str) -> Any:
        """Queue a record; the result is a Java Future for `offset_of`."""
        with _translated():
            record = self._java.new(f"{_CLIENTS}.producer.ProducerRecord", topic, partition, None, value)
            return self._producer.send(record)

    @staticmethod
    def offset_of(sent: Any) -> int:
        """Wait until it is acknowledged."""
        with _translated():
            return sent.get().offset()

    def flush(self) -> None:
        """Wait until everything is acknowledged or refused."""
        with _translated():
            self._producer.flush()

    def send_offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Let a group's offset be part of the transaction."""
        with _translated():
            offsets = self._java.new("java.util.HashMap")
            metadata = self._java.new(f"{_CLIENTS}.consumer.OffsetAndMetadata", offset)
            offsets.put(self._java.partition(topic, partition), metadata)
            member = self._java.new(f"{_CLIENTS}.consumer.ConsumerGroupMetadata", group)
            self._producer.sendOffsetsToTransaction(offsets, member)

    def end(self, *, committed: bool) -> None:
        """Commit or abort."""
        with _translated():
            if committed:
                self._producer.commitTransaction()
            else:
                self._producer.abortTransaction()

    def close(self) -> None:
        """Without waiting for anything."""
        with _translated():
            self._producer.close(self._java.seconds(0))


class JavaConsumer:
    """A KafkaConsumer of partitions that it is told, or one that only asks for a group's offsets."""

    def __init__(self, java: JavaVm, bootstrap: str, **settings: str) -> None:
        told = {key.replace("_", "."): value for key, value in settings.items()}
        common = {"bootstrap.servers": bootstrap, "enable.auto.commit": "false"}
        with _translated():
            self._java = java
            self._consumer = java.new(f"{_CLIENTS}.consumer.KafkaConsumer", java.properties({**common, **told}))

    def committed(self, topic: str, partition: int) -> int | None:
        """The group's offset, None when it has none."""
        place = self._java.partition(topic, partition)
        with _translated():
            found = self._consumer.committed(self._places(place)).get(place)
            return None if found is None else found.offset()

    def read_to_end(self, topic: str, partition: int) -> list[tuple[int, str]]:
        """(offset, value) of every record from the beginning to where the partition ends for this consumer."""
        place = self._java.partition(topic, partition)
        places = self._places(place)
        found: list[tuple[int, str]] = []
        deadline = Deadline("the end of the partition")
        with _translated():
            self._consumer.assign(places)
            self._consumer.seekToBeginning(places)
            end = self._consumer.endOffsets(places).get(place)
            while self._consumer.position(place) < end:
                polled = self._consumer.poll(self._java.seconds(1))
                found += [(each.offset(), each.value()) for each in polled.records(place)]
                deadline.check(found)
        return found

    def assign_from_beginning(self, topic: str, partitions: int) -> None:
        """Read all partitions of a topic."""
        places = self._places(*[self._java.partition(topic, index) for index in range(partitions)])
        with _translated():
            self._consumer.assign(places)
            self._consumer.seekToBeginning(places)

    def subscribe(self, topic: str) -> None:
        """Become a member of the group that the settings name."""
        topics = self._java.new("java.util.HashSet")
        topics.add(topic)
        with _translated():
            self._consumer.subscribe(topics)

    def commit(self) -> None:
        """Commit where `poll` has come to."""
        with _translated():
            self._consumer.commitSync(self._java.seconds(10))

    def assigned(self) -> set[int]:
        """The partitions that it has, of its one topic."""
        with _translated():
            return {each.partition() for each in self._consumer.assignment()}

    def poll(self) -> list[tuple[int, int, str]]:
        """(partition, offset, value) of what comes within a moment."""
        with _translated():
            records = self._consumer.poll(self._java.millis(200)).iterator()
            found: list[tuple[int, int, str]] = []
            while records.hasNext():
                each = records.next()
                found.append((each.partition(), each.offset(), each.value()))
        return found

    def _places(self, *places: Any) -> Any:
        found = self._java.new("java.util.HashSet")
        for place in places:
            found.add(place)
        return found

    def close(self) -> None:
        with _translated():
            self._consumer.close()


def outcome(work: Any) -> str:
    """NONE, or which Java exception came."""
    try:
        work()
    except JavaError as error:
        return error.name
    return "NONE"
