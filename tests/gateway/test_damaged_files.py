"""Segment files damaged while the broker runs or is stopped: all other partitions serve, and the log's advice works."""

from damages import (
    WATCHED,
    check_log,
    cut,
    empty,
    follow_advice,
    garble,
    remove,
    remove_directory,
    zero,
    zero_first_pages,
)
from gateway_brokers import ProcessBroker
from gateway_client import RawClient, batch_of

from odradek.wire.errors import ErrorCode

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
    """Creates the topics; returns the segment file of each."""
    for topic in ("well", *TOPICS):
        client.create_topic(topic)
    for topic in TOPICS:
        for number in range(5):
            assert client.produce(topic, batch_of(b"%d" % number * 3000)).error_code == 0
    return {topic: segment(data, topic) for topic in TOPICS}


def test_damaged_segments_take_their_partitions_offline_and_nothing_else(tmp_path):
    data = tmp_path / "data"
    running = [topic for topic in TOPICS if topic.startswith("running")]
    left = [topic for topic in TOPICS if topic != "running-directory"]
    with ProcessBroker(data, *WATCHED, is_imported=True) as broker:
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
            follow_advice(broker.log(), paths[topic].parent, tmp_path / f"moved-{topic}")
        broker.start()
        with RawClient(broker.address) as client:
            assert [client.produce(topic, batch_of(b"anew")).base_offset for topic in left] == [0] * len(left)
            check_well(client, 3)
        assert broker.terminate() == 0
        check_log(broker.log())
