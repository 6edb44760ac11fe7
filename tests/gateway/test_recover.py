"""A damaged or lost metadata log deletes nothing: the start refuses, and `odradek recover` rebuilds the log."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from gateway_brokers import ProcessBroker, environment
from long_form import rounds

from odradek.gateway.cli.main import cli
from odradek.gateway.metadata.recovery import PRODUCER_ID_LEAP

METADATA = "__cluster_metadata-0.*"
VALUES = [b"%d" % number for number in range(30)]


def connection(broker):
    return {"bootstrap.servers": f"127.0.0.1:{broker.port}", "log_level": 0}


def fill(broker):
    """Topics of several kinds, a group's offsets, and a committed and an open transaction."""
    admin = AdminClient(connection(broker))
    topics = [
        NewTopic("hello", 3, config={"retention.ms": "1000000000000"}),
        NewTopic("long-" + "x" * 240, 1),
        NewTopic("gone", 1),
    ]
    for future in admin.create_topics(topics).values():
        future.result(60)
    producer = Producer({**connection(broker), "enable.idempotence": True})
    for number, value in enumerate(VALUES):
        producer.produce("hello", value, partition=number % 3)
    producer.produce(topics[1].topic, b"long")
    producer.produce("gone", b"x")
    assert producer.flush(60) == 0
    admin.delete_topics(["gone"])["gone"].result(60)
    transactional = Producer({**connection(broker), "transactional.id": "t"})
    transactional.init_transactions(60)
    transactional.begin_transaction()
    transactional.produce("hello", b"in a transaction", partition=0)
    transactional.commit_transaction(60)
    commit(broker, 7)


def commit(broker, offset):
    consumer = Consumer({**connection(broker), "group.id": "g"})
    consumer.commit(offsets=[TopicPartition("hello", 1, offset)], asynchronous=False)
    consumer.close()


def committed(broker):
    consumer = Consumer({**connection(broker), "group.id": "g"})
    [found] = consumer.committed([TopicPartition("hello", 1)], timeout=60)
    consumer.close()
    return found.offset


def values(broker, topic, partitions):
    consumer = Consumer(
        {**connection(broker), "group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found, ended = [], 0
    while ended < partitions:
        message = consumer.poll(60)
        assert message is not None, "nothing came"
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            ended += 1
        else:
            found.append(message.value())
    consumer.close()
    return sorted(found)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A data directory with all of that, after its broker was killed."""
    path = tmp_path_factory.mktemp("recover") / "filled"
    with ProcessBroker(path) as broker:
        fill(broker)
        assert broker.terminate() == 0
    return path


@pytest.fixture
def data(filled, tmp_path):
    return shutil.copytree(filled, tmp_path / "my data")


def odradek(*arguments, code=0):
    result = CliRunner().invoke(cli, arguments, prog_name="odradek")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result.output


def refusal(data):
    """The error message of a start that is refused, which must not change the directory."""
    before = directories(data)
    ended = subprocess.run(
        ProcessBroker(data).command(), capture_output=True, text=True, timeout=60, env=environment(), check=False
    )
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr
    assert directories(data) == before
    return ended.stderr


def directories(data):
    return sorted(path.name for path in data.iterdir() if path.is_dir())


def metadata_segment(data) -> Path:
    [segment] = data.glob(f"{METADATA}/*.lmdb")
    return segment


def remove_directory(data):
    shutil.rmtree(metadata_segment(data).parent)


def empty_directory(data):
    metadata_segment(data).unlink()


def cut_to_half(data):
    path = metadata_segment(data)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def zero_first_pages(data):
    with metadata_segment(data).open("r+b") as file:
        file.write(bytes(8192))


def change_a_batch(data):
    """The file stays a valid LMDB file, with other content than was written."""
    path = metadata_segment(data)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"hello", b"hullo"))


METADATA_DAMAGES = [cut_to_half, remove_directory, empty_directory, zero_first_pages, change_a_batch]


@pytest.mark.torture
@pytest.mark.parametrize("damage", METADATA_DAMAGES[: rounds(2, len(METADATA_DAMAGES))])
def test_following_the_message_brings_everything_back(data, damage):
    damage(data)
    message = refusal(data)
    command = re.search(r"run `(odradek recover --data [^`]+)`", message)
    assert command, message
    arguments = shlex.split(command[1])[1:]
    assert "Nothing was changed: add --yes" in odradek(*arguments)
    assert "Nothing was changed: add --yes" in odradek(*arguments)
    assert "is rebuilt" in odradek(*arguments, "--yes")
    if damage is not remove_directory:
        assert list(data.glob("__cluster_metadata-0.*-stray"))
    with ProcessBroker(data) as broker:
        assert values(broker, "hello", 3) == sorted([*VALUES, b"in a transaction"])
        assert values(broker, "long-" + "x" * 240, 1) == [b"long"]
        assert committed(broker) == 7
        admin = AdminClient(connection(broker))
        found = admin.list_topics(timeout=60).topics
        assert "gone" not in found
        assert len(found["hello"].partitions) == 3
        assert len(found["__consumer_offsets"].partitions) == 50
        resource = ConfigResource(ConfigResource.Type.TOPIC, "hello")
        configs = admin.describe_configs([resource])[resource].result(60)
        assert configs["retention.ms"].value in ("-1", "1000000000000")
        commit(broker, 9)
        fenced = Producer({**connection(broker), "transactional.id": "t"})
        fenced.init_transactions(60)
        fenced.begin_transaction()
        fenced.produce("hello", b"after", partition=0)
        fenced.commit_transaction(60)
        assert values(broker, "hello", 3) == sorted([*VALUES, b"in a transaction", b"after"])
        assert broker.terminate() == 0
        assert "Traceback" not in broker.log()
        broker.start()
        assert committed(broker) == 9


def test_producer_ids_are_not_given_twice(data):
    remove_directory(data)
    odradek("recover", "--data", str(data), "--yes")
    with ProcessBroker(data) as broker:
        producer = Producer({**connection(broker), "enable.idempotence": True})
        producer.produce("hello", b"new", partition=2)
        assert producer.flush(60) == 0
        described = odradek("transactions", "describe-producers", "hello:2", "-b", f"127.0.0.1:{broker.port}", "--json")
        ids = [int(each) for each in re.findall(r'"producer.?id": (\d+)', described)]
        assert max(ids) >= PRODUCER_ID_LEAP


def test_a_whole_directory_needs_nothing_and_a_running_broker_is_left_alone(data):
    assert "nothing has to be recovered" in odradek("recover", "--data", str(data))
    with ProcessBroker(data) as broker:
        assert f"in use by the process with id {broker.process.pid}" in odradek("recover", "--data", str(data), code=1)
    assert "there is no directory" in odradek("recover", "--data", str(data / "none"), code=1)


def test_logs_of_an_unknown_topic_are_set_aside_adopted_and_deleted(data, tmp_path):
    """The state after an older metadata log was restored, which lacks the newest topics."""
    older = tmp_path / "older"
    shutil.copytree(metadata_segment(data).parent, older)
    with ProcessBroker(data) as broker:
        for topic in ("newer", "newest"):
            producer = Producer(connection(broker))
            producer.produce(topic, topic.encode())
            assert producer.flush(60) == 0
        broker.terminate()
        newer = tmp_path / "newer"
        shutil.move(metadata_segment(data).parent, newer)
        shutil.copytree(older, data / metadata_name())
        broker.start()
        while not list(data.glob("newest-*-stray")):
            assert broker.process.poll() is None
        broker.terminate()
        assert "this node has no replicas of these logs, they were set aside count=2" in broker.log()
        assert not list(data.glob("newer-0.*[!y]"))
        listed = odradek("recover", "--data", str(data))
        assert "newest" in listed
        assert "--adopt" in listed
        [name] = [path.name for path in data.glob("newest-0.*-stray")]
        odradek("recover", "--data", str(data), "--adopt", name)
        assert (data / name).exists()
        odradek("recover", "--data", str(data), "--adopt", name, "--yes")
        broker.start()
        assert values(broker, "newest", 1) == [b"newest"]
        assert values(broker, "hello", 3) == sorted([*VALUES, b"in a transaction"])
        assert "newer" not in AdminClient(connection(broker)).list_topics(timeout=60).topics
        broker.terminate()
        # when the right log is restored, the other topic is back without a command
        shutil.rmtree(data / metadata_name())
        shutil.copytree(newer, data / metadata_name())
        broker.start()
        assert values(broker, "newer", 1) == [b"newer"]
        broker.terminate()
        assert "a log that was set aside is its partition's again" in broker.log()
    assert "No log was set aside" in odradek("recover", "--data", str(data), "--delete-strays", "--yes")
    shutil.copytree(next(data.glob("newer-0.*")), data / (next(data.glob("newer-0.*")).name + "-stray"))
    odradek("recover", "--data", str(data), "--delete-strays")
    assert list(data.glob("*-stray"))
    odradek("recover", "--data", str(data), "--delete-strays", "--yes")
    assert not list(data.glob("*-stray"))
    assert list(data.glob("newer-0.*"))


def metadata_name():
    return "__cluster_metadata-0.AAAAAAAAAAAAAAAAAAAAAQ"


def test_the_log_of_a_topic_deleted_just_before_a_crash_is_removed(data):
    """A deletion that is recorded leaks no space."""
    [directory] = data.glob("hello-1.*")
    with ProcessBroker(data) as broker:
        saved = data.parent / "saved"
        shutil.copytree(directory, saved)
        admin = AdminClient(connection(broker))
        admin.delete_topics(["hello"])["hello"].result(60)
        broker.terminate()
        shutil.rmtree(directory, ignore_errors=True)
        shutil.move(saved, directory)
        broker.start()
        while directory.exists():
            assert broker.process.poll() is None
        broker.terminate()
        assert "set aside" not in broker.log()
    assert not list(data.glob("*-stray"))


def test_the_number_of_partitions_can_be_given(data):
    remove_directory(data)
    shown = odradek("recover", "--data", str(data), "--partitions", "hello=5")
    assert re.search(r"hello +5 +3 +retention.bytes=-1,retention.ms=-1", shown)
    for wrong in ("hello=x", "hello=0"):
        odradek("recover", "--data", str(data), "--partitions", wrong, code=2)
