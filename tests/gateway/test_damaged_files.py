"""Segment files damaged under a real broker, running and stopped: it lives, all else serves, and its advice works."""

import os
import re
import shutil
from random import Random

from gateway_brokers import ProcessBroker
from gateway_client import RawClient, batch_of

from wire.errors import ErrorCode

PAGE = 4096


def cut(path):
    os.truncate(path, path.stat().st_size // 2 // PAGE * PAGE)


def empty(path):
    os.truncate(path, 0)


def zero(path):
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))


def zero_first_pages(path):
    with path.open("r+b") as file:
        file.write(bytes(2 * PAGE))


def garble(path):
    with path.open("r+b") as file:
        file.write(Random(1).randbytes(path.stat().st_size))


def remove(path):
    path.unlink()


def remove_directory(path):
    shutil.rmtree(path.parent)


IN_PLACE = {
    f"{kind}-{damage.__name__}": damage
    for kind in ("running", "stopped")
    for damage in (cut, empty, zero, zero_first_pages, garble)
}
GONE = {"running-file": remove, "running-directory": remove_directory, "stopped-file": remove}


def segment(data, topic):
    [path] = data.glob(f"{topic}-0.*/*.lmdb")
    return path


def refused(client, topic):
    assert client.produce(topic, batch_of(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR, topic
    assert client.fetch(topic).error_code == ErrorCode.KAFKA_STORAGE_ERROR, topic


def check_well(client, number):
    assert client.produce("well", batch_of(b"%d" % number)).error_code == 0
    assert client.values("well") == [b"%d" % each for each in range(number + 1)]


TOPICS = {**IN_PLACE, **GONE}


def prepare(client, data):
    """Make the topics; return the segment's file of each."""
    for topic in ("well", *TOPICS):
        client.create_topic(topic)
    for topic in TOPICS:
        for number in range(5):
            assert client.produce(topic, batch_of(b"%d" % number * 3000)).error_code == 0
    return {topic: segment(data, topic) for topic in TOPICS}


def follow_advice(log, path, target):
    """Move the directory that the log names for this segment to where it says: out of the data directory."""
    advice = re.search(rf"move the directory ({re.escape(str(path.parent))}) out of the data directory", log)
    assert advice, path
    shutil.move(advice[1], target)


def test_damaged_segments_take_their_partitions_offline_and_nothing_else(tmp_path):
    data = tmp_path / "data"
    running = [topic for topic in TOPICS if topic.startswith("running")]
    left = [topic for topic in TOPICS if topic != "running-directory"]
    with ProcessBroker(data) as broker:
        with RawClient(broker.address) as client:
            paths = prepare(client, data)
            check_well(client, 0)
            for topic in running:
                TOPICS[topic](paths[topic])
                refused(client, topic)
            check_well(client, 1)
        assert broker.terminate() == 0
        for topic in set(TOPICS) - set(running):
            TOPICS[topic](paths[topic])
        broker.start()
        with RawClient(broker.address) as client:
            for topic in left:
                refused(client, topic)
            check_well(client, 2)
            assert client.produce("running-directory", batch_of(b"anew")).base_offset == 0
        assert broker.terminate() == 0
        for topic in left:
            follow_advice(broker.log(), paths[topic], tmp_path / f"moved-{topic}")
        broker.start()
        with RawClient(broker.address) as client:
            assert [client.produce(topic, batch_of(b"anew")).base_offset for topic in left] == [0] * len(left)
            check_well(client, 3)
        assert broker.terminate() == 0
        assert "Traceback" not in broker.log()
        assert "Fatal Python error" not in broker.log()
