"""Records and positions are committed together, by one load of a job at a time."""

import threading

import pytest
from confluent_kafka import Consumer

from compat_tests.processes import wait_for
from odradek.pipeline.databases.sending import FencedError, TransactionalSender, topic_ends

TRANSACTIONS = 60


def committed(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """The committed records of a topic of one partition, to its end."""
    settings = {
        "bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed",
        "auto.offset.reset": "earliest", "enable.partition.eof": True,
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def at(position: int):
    return lambda count: {"position": position, "count": count}


def test_a_load_goes_on_at_the_position_of_the_one_before(broker, connection):
    topic_ends(connection, "t")
    one = TransactionalSender(connection, "job", "t")
    assert one.open() is None
    one.send([(b"a", b"1"), (None, b"2")], at(2))
    two = TransactionalSender(connection, "job", "t")
    assert two.open() == {"position": 2, "count": 2}
    two.send(iter([(b"c", b"3")]), at(3))
    assert TransactionalSender(connection, "job", "t").open() == {"position": 3, "count": 1}
    assert sorted(value for _, value in committed(broker.bootstrap, "t")) == [b"1", b"2", b"3"]
    assert (one.sent.total(), two.sent.total()) == (2, 1)


def test_a_load_that_was_superseded_commits_nothing_more(broker, connection):
    topic_ends(connection, "t")
    zombie = TransactionalSender(connection, "job", "t")
    zombie.open()
    zombie.send([(b"a", b"1")], at(1))
    successor = TransactionalSender(connection, "job", "t")
    assert successor.open() == {"position": 1, "count": 1}
    with pytest.raises(FencedError, match="another load of job 'job' has begun"):
        zombie.send([(b"b", b"2")], at(2))
    successor.send([(b"b", b"2")], at(2))
    assert sorted(value for _, value in committed(broker.bootstrap, "t")) == [b"1", b"2"]


def test_a_load_that_fails_in_a_transaction_leaves_nothing_of_it(broker, connection):
    def rows():
        yield b"a", b"1"
        raise RuntimeError("the database is away")

    topic_ends(connection, "t")
    sender = TransactionalSender(connection, "job", "t")
    sender.open()
    with pytest.raises(RuntimeError):
        sender.send(rows(), at(9))
    sender.send([(b"b", b"2")], at(1))
    assert committed(broker.bootstrap, "t") == [(b"b", b"2")]
    assert TransactionalSender(connection, "job", "t").open() == {"position": 1, "count": 1}


def test_a_broker_that_is_restarted_meanwhile_has_each_record_once(broker, connection):
    def send() -> None:
        try:
            for number in range(TRANSACTIONS):
                sender.send([(None, b"%d" % number)], at(number))
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            failures.append(error)

    topic_ends(connection, "t")
    sender = TransactionalSender(connection, "job", "t")
    sender.open()
    failures: list[BaseException] = []
    sending = threading.Thread(target=send)
    sending.start()
    for share in (0.3, 0.6):
        wait_for(lambda least=share: failures or sender.sent.total() > TRANSACTIONS * least, "transactions")
        broker.stop()
        broker.start()
    sending.join()
    assert failures == []
    found = [int(value) for _, value in committed(broker.bootstrap, "t") if value is not None]
    assert found == list(range(TRANSACTIONS))
    assert TransactionalSender(connection, "job", "t").open() == {"position": TRANSACTIONS - 1, "count": 1}
