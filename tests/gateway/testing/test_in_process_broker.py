"""`odradek.broker()` in its uses: with, async with under Trio and asyncio, restarts, errors."""

import asyncio  # noqa: TID251 - users have loops of their own
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest
import trio
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka import KafkaConsumer, KafkaProducer

import odradek
from odradek.gateway.config import ConfigError
from odradek.gateway.process import Broker
from odradek.storage_backends.interface import StoreError, StoreLockedError
from odradek.wire.headers import encode_request
from odradek.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.wire.records.builder import SimpleRecord, build_batch

WAIT_LIMIT_MS = 30_000


def send(bootstrap, topic, *values):
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    offsets = [producer.send(topic, value).get(30).offset for value in values]
    producer.close()
    return offsets


def read(bootstrap, topic, count):
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=WAIT_LIMIT_MS
    )
    values = [message.value for _, message in zip(range(count), consumer, strict=False)]
    consumer.close()
    return values


def test_with():
    with odradek.broker() as broker:
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        assert send(broker.bootstrap, "hello", b"a", b"b") == [0, 1]
        assert read(broker.bootstrap, "hello", 2) == [b"a", b"b"]
    with pytest.raises(ConnectionRefusedError):
        connect(broker.port)


def test_a_broker_that_ends_by_itself_is_logged_and_raises_at_the_end_of_the_block(monkeypatch, caplog):
    may_end, serve = threading.Event(), Broker.serve

    async def ends(broker):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, broker)
            await trio.to_thread.run_sync(may_end.wait, 30)
            raise StoreError("the disk is gone")

    def use():
        with odradek.broker() as broker:
            may_end.set()
            while "has ended" not in caplog.text:
                time.sleep(0.01)
            with pytest.raises(ConnectionRefusedError):
                connect(broker.port)

    monkeypatch.setattr(Broker, "serve", ends)
    with pytest.raises(StoreError, match="the disk is gone"):
        use()


def connect(port):
    import socket

    socket.create_connection(("127.0.0.1", port), timeout=10).close()


async def test_async_with_under_trio():
    async with odradek.broker() as broker:
        broker.create_topic("made", partitions=2)
        assert await trio.to_thread.run_sync(send, broker.bootstrap, "made", b"a") == [0]
    with pytest.raises(ConnectionRefusedError):
        connect(broker.port)


def test_async_with_under_asyncio():
    async def main():
        async with odradek.broker() as broker:
            broker.create_topic("made", partitions=2)
            assert await asyncio.to_thread(send, broker.bootstrap, "made", b"a") == [0]
            return broker.port

    port = asyncio.run(main())
    with pytest.raises(ConnectionRefusedError):
        connect(port)


def test_async_with_passes_on_what_its_block_raises():
    async def main():
        async with odradek.broker() as broker:
            raise LookupError(broker.bootstrap)

    with pytest.raises(LookupError):
        asyncio.run(main())
    with pytest.raises(LookupError):
        trio.run(main)


@pytest.mark.parametrize("as_url", [False, True])
def test_a_restart_keeps_port_and_data(tmp_path, as_url):
    with odradek.broker(f"lmdb://{tmp_path}/data" if as_url else tmp_path / "data") as broker:
        port = broker.port
        first = broker.produce("kept", b"a")
        broker.restart()
        assert broker.port == port
        assert broker.records("kept") == [first]
        assert send(broker.bootstrap, "kept", b"b") == [1]
        broker.stop()
        broker.stop()  # stopping again is no error
        with pytest.raises(RuntimeError, match="does not run"):
            broker.create_topic("t")
        broker.start()
        assert read(broker.bootstrap, "kept", 2) == [b"a", b"b"]


def test_memory_is_gone_after_a_restart():
    with odradek.broker() as broker:
        broker.produce_all("gone", ["a", "b"])
        broker.restart()
        assert broker.produce("gone", "c").offset == 0


def test_several_brokers_at_once_know_nothing_of_each_other():
    with ExitStack() as stack:
        brokers = [stack.enter_context(odradek.broker()) for _ in range(3)]
        for number, broker in enumerate(brokers):
            broker.produce("same", str(number))
        assert [each.value for broker in brokers for each in broker.records("same")] == [b"0", b"1", b"2"]


def test_create_topic():
    with odradek.broker() as broker:
        broker.create_topic("wide", partitions=3, configs={"retention.ms": "1000"})
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
        assert consumer.partitions_for_topic("wide") == {0, 1, 2}
        consumer.close()


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("taken", {}, "already exists"),
        ("not a name", {}, "Topic name is invalid"),
        ("none", {"partitions": 0}, "[Pp]artitions"),
        ("configured", {"configs": {"no.such.config": "1"}}, "[Uu]nknown topic config"),
        ("misconfigured", {"configs": {"retention.ms": "soon"}}, "Invalid value soon"),
    ],
)
def test_create_topic_raises_the_cause(name, options, reason):
    with odradek.broker() as broker:
        broker.create_topic("taken")
        with pytest.raises(RuntimeError, match=f"cannot create topic {name}: .*{reason}"):
            broker.create_topic(name, **options)


def test_settings_have_kafkas_names():
    with odradek.broker(config={"num.partitions": "4", "auto.create.topics.enable": "true"}) as broker:
        send(broker.bootstrap, "auto", b"x")
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
        assert len(consumer.partitions_for_topic("auto")) == 4
        consumer.close()


def test_a_wrong_setting_is_raised_where_the_broker_is_started():
    with pytest.raises(ConfigError, match=r"num\.partitions"), odradek.broker(config={"num.partitions": "few"}):
        pytest.fail("it has started")


def test_settings_may_be_numbers_booleans_and_lists():
    settings = {"num.partitions": 3, "auto.create.topics.enable": True, "log.cleanup.policy": ["compact", "delete"]}
    with odradek.broker("memory://", settings) as broker:
        broker.create_topic("defaulted", partitions=-1)
        broker.create_topic("made", configs={"retention.ms": 1000, "cleanup.policy": ("compact",)})
        assert described(broker.bootstrap, "defaulted")["cleanup.policy"] == "compact,delete"
        made = described(broker.bootstrap, "made")
        assert (made["retention.ms"], made["cleanup.policy"]) == ("1000", "compact")
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
        assert len(consumer.partitions_for_topic("defaulted")) == 3
        consumer.close()


def described(bootstrap, topic):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    return {name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(30).items()}


@pytest.mark.parametrize("value", [None, {"a": 1}, b"3"])
def test_a_setting_of_another_kind_is_refused_by_name(value):
    with pytest.raises(ConfigError, match=r"num\.partitions is a"):
        odradek.broker(config={"num.partitions": value}).start()
    with odradek.broker() as broker, pytest.raises(ConfigError, match=r"retention\.ms is a"):
        broker.create_topic("t", configs={"retention.ms": value})


def test_an_import_that_fails_is_raised_where_the_broker_is_started(monkeypatch):
    """A broken installation, such as a missing library, raises an error that names it."""
    monkeypatch.setitem(sys.modules, "odradek.gateway.process", None)
    with pytest.raises(ModuleNotFoundError, match=r"gateway\.process"):
        odradek.broker().start()


def test_a_directory_in_use_is_raised_where_the_broker_is_started(tmp_path):
    second = odradek.broker(tmp_path / "data")
    with odradek.broker(tmp_path / "data") as first:
        with pytest.raises(StoreLockedError):
            second.start()
        stored = first.produce("t", "x")
    with second:  # can be started once the first has stopped
        assert second.records("t") == [stored]


def test_the_environment_of_the_process_is_not_read(monkeypatch):
    """Tests must not depend on the machine."""
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "7")
    monkeypatch.setenv("ODRADEK_NUM_PARTITIONS", "7")
    with odradek.broker() as broker:
        assert {broker.produce("auto", "x").partition for _ in range(3)} == {0}


def test_importing_the_package_imports_no_broker():
    """The pytest plugin is imported by every test run of every project in whose environment it is installed."""
    script = "import sys, odradek.gateway.testing, odradek.pytest_plugin; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert {"trio", "lmdb", "kafka", "odradek.gateway.process"} & set(modules) == set()


FIRST_RECORD = """
import sys, socket, odradek
with odradek.broker(sys.argv[1]) as broker:
    broker.create_topic("first")
    with socket.create_connection((broker.host, broker.port)) as client:
        client.sendall(bytes.fromhex(sys.argv[2]))
        client.recv(4096)
    print(*sorted(sys.modules))
"""

NOT_FOR_A_FIRST_RECORD = {
    "importlib.metadata": "no package needs the versions of others",
    "email": "importlib.metadata and others would bring it along",
    "argparse": "there is no command line",
    "rich": "there is no command line",
    "click": "there is no command line",
    "kafka": "the client is for commands",
    "cramjam": "nothing is compressed",
    "odradek.coordinator.groups.shard": "there is no group",
    "odradek.coordinator.groups.consumer.heartbeat": "there is no group",
    "odradek.coordinator.transactions.add": "there is no transaction",
    "odradek.coordinator.transactions.shard": "there is no transaction",
    "odradek.coordinator.transactions.table": "there is no transaction",
    "odradek.wire.stored.transaction_records": "there is no transaction",
    "odradek.coordinator.metadata.controller.alter_configs": "no config is altered",
    "odradek.coordinator.metadata.controller.client_quotas": "there are no quotas",
    "odradek.coordinator.metadata.controller.create_partitions": "no topic grows",
    "odradek.coordinator.metadata.controller.delete_topics": "no topic goes",
    "odradek.coordinator.metadata.describe_configs": "no config is described",
    "odradek.coordinator.metadata.controller.features": "no feature is changed",
    "odradek.coordinator.metadata.controller.scram": "there are no users",
    "odradek.coordinator.metadata.controller.unregister_broker": "no broker goes",
    "odradek.gateway.maintenance.cleaning_pass": "no log is compacted",
    "odradek.partitions.compaction": "no log is compacted",
    "odradek.partitions.fetching.sessions": "there is no fetch",
    "odradek.wire.messages.consumer_protocol": "there is no group",
    "odradek.wire.messages.fetch": "there is no fetch",
    "odradek.wire.stored.control_records": "there is no transaction",
}


@pytest.mark.parametrize("storage", ["memory://", "lmdb"])
def test_the_first_record_imports_only_what_it_needs(storage, tmp_path):
    """The time until a test can produce depends mostly on the number of imports."""
    data = PartitionProduceData(index=0, records=build_batch([SimpleRecord(None, b"x")]))
    request = ProduceRequest(acks=-1, topic_data=(TopicProduceData(name="first", partition_data=(data,)),))
    frame = encode_request(request, 9, 1, "test")
    command = [sys.executable, "-c", FIRST_RECORD, storage if "://" in storage else str(tmp_path), frame.hex()]
    modules = set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split())
    assert "odradek.gateway.handlers.produce" in modules
    assert {name: why for name, why in NOT_FOR_A_FIRST_RECORD.items() if name in modules} == {}


def test_values_of_the_start_are_no_dataclasses():
    """Making a dataclass takes longer than importing most modules; see `odradek.wire.values`."""
    script = (
        "import dataclasses, sys\nmake = dataclasses.dataclass\nmade = []\n"
        "def noting(cls=None, **options):\n"
        "    if cls is None: return lambda it: noting(it, **options)\n"
        "    made.append(f'{cls.__module__}.{cls.__name__}')\n"
        "    return make(cls, **options)\n"
        "dataclasses.dataclass = noting\n"
        "import odradek.gateway.process\n"
        "print(*made)\n"
    )
    made = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert made, "bare ones are made for `replace`: what is made is noted"
    assert [name for name in made if not name.startswith("types.")] == []


def test_a_process_that_forgets_to_stop_its_broker_still_ends():
    script = "import odradek.gateway.testing; odradek.broker().start(); print('started')"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "started\n"), ended.stderr


def test_the_public_names_are_shown_and_can_be_imported():
    script = "import odradek; print(*dir(odradek)); print(*[getattr(odradek, name).__name__ for name in dir(odradek)])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    names, imported = shown.splitlines()
    assert names == imported == " ".join(odradek.__all__)
    with pytest.raises(AttributeError, match="no attribute 'consumer'"):
        odradek.consumer  # noqa: B018 - the access raises
