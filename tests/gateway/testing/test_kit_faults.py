"""Scripted faults as the protocol shows them: which requests meet them, what is stored, and what is replied."""

from itertools import count

import pytest
from gateway_client import RawClient, batch_of, fetch_request, produce_many, produce_request

import odradek
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.fetch import FetchPartition, FetchTopic
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

_names = count()
ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture(scope="module")
def broker():
    with odradek.broker() as running:
        yield running


@pytest.fixture
def faults(broker):
    yield broker.faults
    broker.faults.clear()


@pytest.fixture
def topic(broker):
    name = f"faults-{next(_names)}"
    broker.create_topic(name, partitions=2)
    return name


@pytest.fixture
def client(broker):
    with RawClient((broker.host, broker.port)) as connected:
        yield connected


def other(broker, client_id="other"):
    return RawClient((broker.host, broker.port), client_id)


def codes(response):
    return {part.index: part.error_code for topic in response.responses for part in topic.partition_responses}


def test_the_next_requests_fail_and_nothing_of_them_is_stored(faults, client, topic):
    fault = faults.next("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)
    results = [client.produce(topic, batch_of(b"%d" % n)) for n in range(3)]
    assert [(each.error_code, each.base_offset) for each in results] == [(ERROR, -1), (ERROR, -1), (0, 0)]
    assert client.values(topic) == [b"2"]
    assert [(hit.api, hit.client_id, hit.partitions) for hit in fault.hits] == [("Produce", "raw", ((topic, 0),))] * 2
    assert not faults.pending


def test_other_requests_do_not_meet_it(faults, client, topic, broker):
    faults.always("Produce", error="NOT_LEADER_OR_FOLLOWER", client_id="someone")
    faults.always("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic="another")
    faults.always("Produce", error="NOT_LEADER_OR_FOLLOWER", partition=1)
    assert client.produce(topic, batch_of(b"x")).error_code == 0
    assert client.values(topic) == [b"x"]
    with other(broker, "someone") as someone:
        assert someone.produce(topic, batch_of(b"y")).error_code == ERROR


def test_only_the_selected_partition_fails_and_the_other_is_written(faults, client, topic):
    faults.next("Produce", error="KAFKA_STORAGE_ERROR", partition=1)
    both = produce_many([(topic, 0, batch_of(b"zero")), (topic, 1, batch_of(b"one"))])
    assert codes(client.call(both)) == {0: 0, 1: ErrorCode.KAFKA_STORAGE_ERROR}
    assert (client.values(topic, 0), client.values(topic, 1)) == ([b"zero"], [])


def test_a_topic_is_found_by_its_id(faults, client, topic, broker):
    fault = faults.next("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic=topic)
    [described] = client.call(MetadataRequest(topics=(MetadataRequestTopic(name=topic),))).topics
    by_id = FetchTopic(topic_id=described.topic_id, partitions=(FetchPartition(partition_max_bytes=100),))
    request = fetch_request(topic, [(0, 0)])
    request = type(request)(max_wait_ms=0, max_bytes=100, topics=(by_id,))
    [answered] = client.call(request, 13).responses
    assert (answered.topic_id, answered.partitions[0].error_code) == (described.topic_id, ERROR)
    assert fault.hits[0].partitions == ((topic, 0),)


def test_a_predicate_sees_the_decoded_request(faults, client, topic):
    seen = []

    def is_large(request):
        seen.append((request.api, request.version, request.client_id))
        return request.message.timeout_ms == 77

    faults.next("Produce", error="NOT_LEADER_OR_FOLLOWER", matching=is_large)
    assert client.produce(topic, batch_of(b"x")).error_code == 0
    assert codes(client.call(produce_request(topic, batch_of(b"y"), timeout_ms=77))) == {0: ERROR}
    assert seen == [("Produce", 12, "raw")] * 2


def test_a_predicate_that_raises_raises_in_the_test(faults, client, topic):
    fault = faults.next("Produce", close=True, matching=lambda request: request.message.no_such_field)
    assert client.produce(topic, batch_of(b"x")).error_code == 0
    assert not faults.pending
    with pytest.raises(AttributeError, match="no_such_field"):
        fault.remove()


def test_close_before_the_request_stores_nothing(faults, client, topic, broker):
    faults.next("Produce", close=True)
    client.send(produce_request(topic, batch_of(b"x")))
    assert client.is_closed_by_broker()
    with other(broker) as again:
        assert again.values(topic) == []


def test_close_after_the_request_loses_only_the_reply(faults, client, topic, broker):
    faults.next("Produce", close=True, when="after")
    client.send(produce_request(topic, batch_of(b"x")))
    assert client.is_closed_by_broker()
    with other(broker) as again:
        assert again.values(topic) == [b"x"]


def test_an_error_after_the_request_replaces_the_reply(faults, client, topic):
    faults.next("Produce", error="REQUEST_TIMED_OUT", when="after")
    assert client.produce(topic, batch_of(b"x")).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert client.values(topic) == [b"x"]


def test_a_dropped_request_gets_no_reply_until_its_connection_is_closed(faults, client, topic, broker):
    fault = faults.next("Produce", drop=True)
    client.send(produce_request(topic, batch_of(b"x")))
    client.send(produce_request(topic, batch_of(b"y")))  # waits behind it, as behind any request
    fault.wait()
    with other(broker) as again:
        assert again.values(topic) == []
    fault.remove()
    assert client.is_closed_by_broker()
    with other(broker) as again:
        assert again.values(topic) == []


def test_a_delayed_request_waits(faults, client, topic, broker):
    fault = faults.next("Produce", delay=3600)
    sent = client.send(produce_request(topic, batch_of(b"x")))
    fault.wait()
    with other(broker) as again:
        assert again.values(topic) == []
    fault.remove()
    assert codes(client.receive(sent)) == {0: 0}
    assert client.values(topic) == [b"x"]


def test_a_reply_that_is_delayed_comes_after_the_record(faults, client, topic, broker):
    fault = faults.next("Produce", delay=3600, when="after")
    sent = client.send(produce_request(topic, batch_of(b"x")))
    fault.wait()
    with other(broker) as again:
        while not again.values(topic):
            pass
    fault.remove()
    assert codes(client.receive(sent)) == {0: 0}


def test_a_short_delay_ends_by_itself(faults, client, topic):
    fault = faults.next("Produce", delay=0.01, error="NOT_LEADER_OR_FOLLOWER")
    assert client.produce(topic, batch_of(b"x")).error_code == ERROR
    assert fault.count == 1


def test_a_produce_without_acks_loses_its_connection(faults, client, topic):
    faults.next("Produce", error="NOT_LEADER_OR_FOLLOWER")
    client.send(produce_request(topic, batch_of(b"x"), acks=0))
    assert client.is_closed_by_broker()


def test_a_produce_without_acks_has_no_reply_after_a_delay_either(faults, client, topic):
    fault = faults.next("Produce", delay=0.01, when="after")
    client.send(produce_request(topic, batch_of(b"x"), acks=0))
    assert client.values(topic) == [b"x"]
    assert fault.count == 1


def test_in_a_fetch_session_the_failed_partition_comes_back(faults, client, topic):
    for partition in (0, 1):
        client.produce(topic, batch_of(b"first"), partition)
    full = fetch_request(topic, [(0, 0), (1, 0)])
    session = client.call(_in_session(full, 0, 0))
    assert _codes_of_fetch(session) == {0: 0, 1: 0}
    fault = faults.always("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic=topic, partition=1)
    failed = client.call(_in_session(full, session.session_id, 1, everything=False))
    assert failed.session_id == session.session_id
    assert _codes_of_fetch(failed) == {0: 0, 1: ERROR}
    fault.remove()
    answered = client.call(_in_session(full, session.session_id, 2, everything=False))
    assert _codes_of_fetch(answered) == {0: 0, 1: 0}


def test_an_empty_partition_is_told_again_when_its_error_ends(faults, client, topic):
    full = fetch_request(topic, [(0, 0), (1, 0)])
    session = client.call(_in_session(full, 0, 0))
    assert _codes_of_fetch(client.call(_in_session(full, session.session_id, 1, everything=False))) == {}
    with faults.always("Fetch", error="NOT_LEADER_OR_FOLLOWER", partition=1):
        failed = client.call(_in_session(full, session.session_id, 2, everything=False))
        assert _codes_of_fetch(failed) == {1: ERROR}
    assert _codes_of_fetch(client.call(_in_session(full, session.session_id, 3, everything=False))) == {1: 0}


def test_an_error_of_the_fetch_session_is_that_of_the_whole_request(faults, client, topic):
    faults.next("Fetch", error="FETCH_SESSION_ID_NOT_FOUND")
    response = client.call(fetch_request(topic, [(0, 0)]))
    assert (response.error_code, response.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ())


def _in_session(request, session_id, epoch, *, everything=True):
    return type(request)(
        max_wait_ms=0,
        max_bytes=request.max_bytes,
        session_id=session_id,
        session_epoch=epoch,
        topics=request.topics if everything else (),
    )


def _codes_of_fetch(response):
    return {part.partition_index: part.error_code for topic in response.responses for part in topic.partitions}


def test_metadata_keeps_its_brokers_and_the_other_topics(faults, client, topic, broker):
    broker.create_topic(f"{topic}-other")
    faults.always("Metadata", error="LEADER_NOT_AVAILABLE", topic=topic)
    response = client.call(MetadataRequest(topics=None))
    found = {each.name: (each.error_code, len(each.partitions)) for each in response.topics}
    assert found[topic] == (ErrorCode.LEADER_NOT_AVAILABLE, 0)
    assert found[f"{topic}-other"] == (0, 1)
    assert [each.port for each in response.brokers] == [broker.port]


def test_metadata_of_one_partition_fails(faults, client, topic):
    faults.next("Metadata", error="LEADER_NOT_AVAILABLE", topic=topic, partition=1)
    [described] = client.call(MetadataRequest(topics=(MetadataRequestTopic(name=topic),))).topics
    assert [part.error_code for part in described.partitions] == [0, ErrorCode.LEADER_NOT_AVAILABLE]


def test_a_request_of_a_group_fails_as_a_whole(faults, client):
    faults.next("Heartbeat", error="REBALANCE_IN_PROGRESS")
    assert client.call(HeartbeatRequest(group_id="g")).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert client.call(HeartbeatRequest(group_id="g")).error_code == ErrorCode.NOT_COORDINATOR  # the broker's own


def test_any_request_of_a_client(faults, broker):
    faults.always("*", close=True, client_id="cut off")
    with other(broker, "cut off") as cut_off:
        cut_off.send(ApiVersionsRequest(client_software_name="t", client_software_version="1"))
        assert cut_off.is_closed_by_broker()
    with other(broker) as served:
        assert served.call(ApiVersionsRequest(client_software_name="t", client_software_version="1")).error_code == 0


def test_the_first_fault_that_applies_is_met(faults, client, topic):
    first = faults.next("Produce", error="NOT_LEADER_OR_FOLLOWER")
    second = faults.next("Produce", error="KAFKA_STORAGE_ERROR")
    assert faults.pending == [first, second]
    codes = [client.produce(topic, batch_of(b"x")).error_code for _ in range(3)]
    assert codes == [ERROR, ErrorCode.KAFKA_STORAGE_ERROR, 0]


def test_a_block_ends_its_fault(faults, client, topic):
    with faults.always("Produce", error="NOT_LEADER_OR_FOLLOWER", must_happen=True) as fault:
        assert client.produce(topic, batch_of(b"x")).error_code == ERROR
    assert client.produce(topic, batch_of(b"x")).error_code == 0
    assert fault.count == 1


def test_a_fault_that_must_happen(faults):
    fault = faults.next("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="t", must_happen=True)
    with pytest.raises(AssertionError, match="no request met the fault Produce error=NOT_LEADER_OR_FOLLOWER topic='t'"):
        faults.check()
    with pytest.raises(AssertionError, match="no request met"), fault:
        pass
    with pytest.raises(ZeroDivisionError), faults.next("Produce", close=True, must_happen=True):
        raise ZeroDivisionError
    faults.clear()
    faults.check()


def test_waiting_for_a_fault_ends(faults):
    with pytest.raises(TimeoutError, match="0 of 2 requests met the fault Fetch close when=before"):
        faults.next("Fetch", close=True).wait(2, within=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"api": "Prodce", "close": True}, "did you mean Produce"),
        ({"api": "Produce", "error": "NOT_A_LEADER"}, "did you mean .*NOT_LEADER_OR_FOLLOWER"),
        ({"api": "Produce"}, "say what happens"),
        ({"api": "Produce", "delay": -1}, "say what happens"),
        ({"api": "Produce", "drop": True, "close": True}, "one of error, drop and close"),
        ({"api": "Produce", "close": True, "when": "later"}, "neither 'before' nor 'after'"),
        ({"api": "Produce", "close": True, "times": 0}, "at least once"),
        ({"api": "Heartbeat", "close": True, "topic": "t"}, "Heartbeat requests name no topics"),
    ],
)
def test_what_cannot_be_armed(faults, arguments, message):
    with pytest.raises(ValueError, match=message):
        faults.next(**arguments)
    assert not faults.pending


def test_faults_outlive_a_restart_and_hold_up_no_stop():
    """`stop` would otherwise wait for the dropped request, for as long as the drain may take."""
    broker = odradek.broker(config={"odradek.drain.timeout.ms": 600_000})
    fault = broker.faults.always("Produce", drop=True)
    with broker:
        broker.create_topic("t")
        with other(broker) as client:
            client.send(produce_request("t", batch_of(b"x")))
            fault.wait()
            broker.restart()
            broker.create_topic("t")
            assert client.is_closed_by_broker()
        with other(broker) as client:
            client.send(produce_request("t", batch_of(b"x")))
            fault.wait(2)
