"""Damaged files other than segments, files that cannot be opened, and a stop after damage.

These are the metadata log while the broker runs, `format`, `properties.json`, `lock`, and those that a partition's
directory may have: `topic` and the marker of writes without syncs.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from damages import (
    DAMAGES,
    WATCHED,
    check_log,
    cut,
    empty,
    garble,
    remove,
    remove_directory,
    zero,
    zero_middle,
)
from gateway_brokers import START_TIMEOUT_S, ProcessBroker, environment
from gateway_client import RawClient, batch_of
from long_form import rounds

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

SMALL_FILES = (garble, remove, empty, zero)
LONG_TOPIC = "long-" + "x" * 240


class Witness:
    """A topic that must not be affected, used with a real client."""

    def __init__(self, broker: ProcessBroker, topic: str = "well") -> None:
        self._broker, self._topic, self._count = broker, topic, 0

    def check(self) -> None:
        """Writes one more record, and reads all that were written."""
        connection = {"bootstrap.servers": f"127.0.0.1:{self._broker.port}", "log_level": 0}
        producer = Producer({**connection, "enable.idempotence": True})
        producer.produce(self._topic, b"%d" % self._count, partition=0)
        assert producer.flush(30) == 0
        self._count += 1
        consumer = Consumer({**connection, "group.id": "g"})
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        messages = [consumer.poll(30) for _ in range(self._count)]
        assert [each.value() for each in messages] == [b"%d" % number for number in range(self._count)]
        consumer.close()


def metadata_segment(data: Path) -> Path:
    [path] = data.glob("__cluster_metadata-0.*/*.lmdb")
    return path


def create_error(client: RawClient, name: str) -> int:
    request = CreateTopicsRequest(topics=(CreatableTopic(name=name, num_partitions=1, replication_factor=-1),))
    return client.call(request).topics[0].error_code


def refusal(data: Path) -> str:
    """The error message of a start that is refused."""
    broker = ProcessBroker(data)
    ended = subprocess.run(
        broker.command(), capture_output=True, text=True, timeout=START_TIMEOUT_S, env=environment(), check=False
    )
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr
    return ended.stderr


METADATA_DAMAGES = (cut, remove_directory, *(each for each in DAMAGES if each not in (cut, zero_middle)))


@pytest.mark.torture
@pytest.mark.parametrize("damage", METADATA_DAMAGES[: rounds(2, len(METADATA_DAMAGES))])
def test_the_metadata_log_while_the_broker_runs(tmp_path, damage):
    data = tmp_path / "my data"
    with ProcessBroker(data, *WATCHED, is_imported=True) as broker:
        witness = Witness(broker)
        with RawClient(broker.address) as client:
            client.create_topic("well")
            client.create_topic("other", 3)
            witness.check()
            damage(metadata_segment(data))
            for _ in range(3):
                assert create_error(client, "new") not in (0, ErrorCode.UNKNOWN_SERVER_ERROR)
            witness.check()
            assert client.produce("other", batch_of(b"x"), 2).base_offset == 0
        assert broker.terminate() == 0
        assert re.search(r"odradek recover --data '[^']+my data'", broker.log())
        command = re.search(r"run `(odradek recover --data [^`]+)`", refusal(data))
        assert command
        recover = [sys.executable, "-m", "odradek", *shlex.split(command[1])[1:], "--yes"]
        subprocess.run(recover, check=True, capture_output=True, timeout=START_TIMEOUT_S, env=environment())
        broker.start()
        with RawClient(broker.address) as client:
            witness.check()
            assert client.values("other", 2) == [b"x"]
            assert create_error(client, "new") == 0
        assert broker.terminate() == 0
        check_log(broker.log())


@pytest.mark.torture
def test_the_files_of_the_store(tmp_path):
    """A running broker needs none of them; a start without `format` or with a wrong one gives advice."""
    data = tmp_path / "my data"
    with ProcessBroker(data, *WATCHED, is_imported=True) as broker:
        witness = Witness(broker)
        with RawClient(broker.address) as client:
            client.create_topic("well")
            client.create_topic(LONG_TOPIC)
            assert client.produce(LONG_TOPIC, batch_of(b"x")).error_code == 0
        files = [data / "format", data / "properties.json", data / "lock", *data.glob("long-*/topic")]
        (data / "properties.json").write_text("{}")
        whole = {path: path.read_bytes() for path in files}
        damages = SMALL_FILES[: rounds(2, len(SMALL_FILES))]
        for damage in damages:
            for path in files:
                damage(path)
            witness.check()
            for path in files[:2]:  # a second broker reads these first
                path.write_bytes(whole[path])
            assert "is in use by the process" in refusal(data)
            for path in files[2:]:
                path.write_bytes(whole[path])
        for damage in damages:
            assert broker.terminate() == 0
            for path in files:
                damage(path)
            write_format_again(data)
            delete_properties(data)
            broker.start()
            witness.check()
            with RawClient(broker.address) as client:
                assert client.values(LONG_TOPIC) == [b"x"]
            for path in files:
                path.write_bytes(whole[path])
        assert broker.terminate() == 0
        check_log(broker.log())


def write_format_again(data: Path) -> None:
    """Starts the broker and follows the advice of the refusal."""
    said = refusal(data)
    command = re.search(r"write it again: (echo .*)", said)
    assert command, said
    subprocess.run(["sh", "-c", command[1]], check=True)


def delete_properties(data: Path) -> None:
    """As above; a broker starts without this file."""
    path = data / "properties.json"
    if path.exists():
        said = refusal(data)
        assert f"{path} is not what was written" in said
        assert "delete it" in said
        path.unlink()


def test_files_that_cannot_be_opened(tmp_path):
    """Files without read permission or replaced by a directory; the partitions serve once the cause is gone."""
    data = tmp_path / "data"
    with UnprivilegedBroker(data, *WATCHED) as broker:
        witness = Witness(broker)
        with RawClient(broker.address) as client:
            for topic in ("well", "unreadable", "directory", "closed"):
                client.create_topic(topic)
                assert topic == "well" or client.produce(topic, batch_of(b"x")).error_code == 0
        assert broker.terminate() == 0
        forbidden, replaced, closed = (segment(data, topic) for topic in ("unreadable", "directory", "closed"))
        forbidden.chmod(0)
        replaced.rename(tmp_path / "kept")
        replaced.mkdir()
        closed.parent.chmod(0)
        broker.start()
        with RawClient(broker.address) as client:
            for topic in ("unreadable", "directory", "closed"):
                assert client.produce(topic, batch_of(b"y")).error_code == ErrorCode.KAFKA_STORAGE_ERROR, topic
                assert client.fetch(topic).error_code == ErrorCode.KAFKA_STORAGE_ERROR, topic
            witness.check()
        assert broker.terminate() == 0
        for path in (forbidden, replaced, closed.parent):
            assert str(path) in broker.log()
        assert broker.log().count("give the user that runs the broker read and write access") >= 2
        forbidden.chmod(0o644)
        replaced.rmdir()
        (tmp_path / "kept").rename(replaced)
        closed.parent.chmod(0o755)
        broker.start()
        with RawClient(broker.address) as client:
            for topic in ("unreadable", "directory", "closed"):
                assert client.values(topic) == [b"x"]
                assert client.produce(topic, batch_of(b"y")).error_code == 0
            witness.check()
        assert broker.terminate() == 0
        check_log(broker.log())
        for path in (data / "format", metadata_segment(data), metadata_segment(data).parent):
            mode = path.stat().st_mode
            path.chmod(0)
            ended = subprocess.run(
                broker.command(), capture_output=True, text=True, timeout=60, env=environment(), check=False
            )
            path.chmod(mode)
            assert ended.returncode == 1, ended
            assert "Traceback" not in ended.stderr
            assert str(path) in ended.stderr


class UnprivilegedBroker(ProcessBroker):
    """A broker for which file permissions apply even if the tests run as root."""

    def command(self) -> list[str]:
        if os.geteuid():
            return super().command()
        return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *super().command()]


def segment(data: Path, topic: str) -> Path:
    [path] = data.glob(f"{topic}-0.*/*.lmdb")
    return path


UNSYNCED = {"flush_messages": "9223372036854775807"}
SYNCED = {"flush_messages": "1"}


def test_a_stop_after_damage_exits_with_0_and_logs_what_failed(tmp_path):
    """Each damaged log is named, whether it has writes to sync or not; all others are closed normally."""
    data = tmp_path / "data"
    damages = {
        f"{mode}-{each.__name__}": each for mode in ("synced", "unsynced") for each in (*DAMAGES, remove_directory)
    }
    with ProcessBroker(data, *WATCHED, is_imported=True) as broker:
        witness = Witness(broker)
        with RawClient(broker.address) as client:
            client.create_topic("well", **UNSYNCED)
            for topic in damages:
                client.create_topic(topic, **(SYNCED if topic.startswith("synced") else UNSYNCED))
                assert client.produce(topic, batch_of(b"x" * 5000)).error_code == 0
        witness.check()
        assert list(data.glob("well-0.*/*.unsynced"))
        paths = {topic: segment(data, topic) for topic in damages}
        for topic, damage in damages.items():
            damage(paths[topic])
        assert broker.terminate() == 0
        assert not list(data.glob("well-0.*/*.unsynced"))
        said = broker.log()
        for topic, path in paths.items():
            if not topic.endswith(zero_middle.__name__):  # this damages records, which closing does not read
                assert re.search(rf"closing failed partition={topic}-0 cause={re.escape(str(path))} .*restore it", said)
        broker.start()
        witness.check()
        assert broker.terminate() == 0
        check_log(broker.log())


def test_the_marker_of_writes_without_syncs(tmp_path):
    """The marker only shows whether the system crashed; after a mere kill the broker serves without it."""
    data = tmp_path / "data"
    topics = {f"{kind}-{each.__name__}": each for kind in ("running", "stopped") for each in SMALL_FILES}
    with ProcessBroker(data, *WATCHED, is_imported=True) as broker:
        witness = Witness(broker)
        with RawClient(broker.address) as client:
            client.create_topic("well", **UNSYNCED)
            for topic in topics:
                client.create_topic(topic, **UNSYNCED)
                assert client.produce(topic, batch_of(b"0")).error_code == 0
            witness.check()
            for topic, damage in topics.items():
                if topic.startswith("running"):
                    damage(segment(data, topic).with_suffix(".unsynced"))
                    assert client.produce(topic, batch_of(b"1")).error_code == 0
        broker.kill()
        for topic, damage in topics.items():
            if topic.startswith("stopped"):
                damage(segment(data, topic).with_suffix(".unsynced"))
        broker.start()
        with RawClient(broker.address) as client:
            for topic in topics:
                assert client.values(topic) == ([b"0", b"1"] if topic.startswith("running") else [b"0"])
                assert client.produce(topic, batch_of(b"2")).error_code == 0
        witness.check()
        assert broker.terminate() == 0
        check_log(broker.log())
