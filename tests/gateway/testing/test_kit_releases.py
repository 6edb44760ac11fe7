"""`like`: clients find what brokers of a release offer, and are refused what the release did not know."""

from types import SimpleNamespace

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from gateway_client import RawClient, batch_of, fetch_request
from kafka import KafkaConsumer, KafkaProducer

from odradek import broker
from odradek.gateway.config import ConfigError
from odradek.gateway.config.releases import release_named
from odradek.wire.api_keys import ADVERTISED
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.wire.releases import RELEASES

ASKING = ApiVersionsRequest(client_software_name="t", client_software_version="1")


def raw(kafka):
    return RawClient((kafka.host, kafka.port))


def offered(answer):
    return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}


@pytest.mark.parametrize("release", RELEASES)
def test_clients_are_offered_what_the_release_offers(release):
    with broker(like=release) as kafka, raw(kafka) as client:
        answer = client.call(ASKING, 0)
        assert (answer.error_code, offered(answer)) == (0, dict(release_named(release).served))


def test_without_like_everything_is_offered():
    with broker() as kafka, raw(kafka) as client:
        assert offered(client.call(ASKING, 0)) == ADVERTISED


def test_a_newer_version_ends_the_connection():
    with broker(like="2.8") as kafka:
        kafka.create_topic("t")
        with raw(kafka) as client:
            assert client.produce("t", batch_of(b"x"), version=9).error_code == 0
            client.send(fetch_request("t", [(0, 0)]), 13)
            assert client.is_closed_by_broker()


@pytest.mark.parametrize(("release", "told"), [("2.3", {}), ("2.8", {18: (0, 3)})])
def test_a_newer_apiversions_is_answered_as_unsupported(release, told):
    """Up to 2.3 without the versions that are served; since 2.4 with them (KIP-511)."""
    with broker(like=release) as kafka, raw(kafka) as client:
        key, _, correlation = client.send(ASKING, 4)
        answer = client.receive((key, 0, correlation))
        assert (answer.error_code, offered(answer)) == (ErrorCode.UNSUPPORTED_VERSION, told)
        assert client.call(ASKING, 0).error_code == 0


@pytest.mark.parametrize(
    ("release", "finalized"),
    [
        ("2.8", {}),
        ("3.3", {"metadata.version": 7}),
        ("3.9", {"metadata.version": 21}),
        ("4.0", {"group.version": 1, "metadata.version": 25, "transaction.version": 2}),
    ],
)
def test_features_are_the_releases(release, finalized):
    with broker(like=release) as kafka, raw(kafka) as client:
        answer = client.call(ASKING, 3)
        assert {each.name: each.max_version_level for each in answer.finalized_features} == finalized
        assert {each.name for each in answer.supported_features} <= finalized.keys()
        assert (answer.finalized_features_epoch >= 0) == bool(finalized)


def test_the_consumer_protocol_is_refused_before_4_0():
    """3.7 knows the API, but does not serve it by default; 3.6 does not know it."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m" * 22, rebalance_timeout_ms=1000, subscribed_topic_names=(), topic_partitions=()
    )
    with broker(like="3.6") as kafka, raw(kafka) as client:
        client.send(request, 0)
        assert client.is_closed_by_broker()
    with broker(like="3.7") as kafka, raw(kafka) as client:
        assert client.call(request, 0).error_code == ErrorCode.UNSUPPORTED_VERSION


CLIENTS = ("0.11", "1.0", "2.0", "2.4", "2.8", "3.3", "3.9", "4.0")


@pytest.mark.parametrize("release", CLIENTS)
def test_kafka_python_works(release):
    with broker(like=release) as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
        producer.send("t", b"x", headers=[("a", b"1")]).get(30)
        consumer = KafkaConsumer(
            "t",
            bootstrap_servers=kafka.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            consumer_timeout_ms=30_000,
        )
        assert next(consumer).value == b"x"
        consumer.commit()
        producer.close()
        consumer.close()


def read(kafka, **options):
    """The value of the first message in topic t, read by librdkafka."""
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **options}
    consumer = Consumer(settings)
    try:
        consumer.subscribe(["t"])
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            raise KafkaException(message.error())
        consumer.commit(message, asynchronous=False)
        return message.value()
    finally:
        consumer.close()


@pytest.mark.parametrize("release", CLIENTS)
def test_librdkafka_works_with_transactions(release):
    with broker(like=release) as kafka:
        kafka.create_topic("t")
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "p"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"x")
        producer.commit_transaction(30)
        assert read(kafka) == b"x"


def test_librdkafka_needs_4_0_for_the_consumer_protocol():
    with broker(like="4.0") as kafka:
        kafka.create_topic("t")
        with raw(kafka) as client:
            client.produce("t", batch_of(b"x", timestamp_ms=kafka.now_ms))
        assert read(kafka, **{"group.protocol": "consumer"}) == b"x"
    with broker(like="3.9") as kafka:  # it asks for the coordinator again and again
        told = []
        settings = {"bootstrap.servers": kafka.bootstrap, "group.id": "g", "group.protocol": "consumer"}
        consumer = Consumer({**settings, "debug": "cgrp"}, logger=SimpleNamespace(log=lambda *line: told.append(line)))
        consumer.subscribe(["t"])
        for _ in range(300):
            consumer.poll(0.1)
            if any("ConsumerGroupHeartbeatRequest not supported by broker" in str(line) for line in told):
                break
        else:
            raise AssertionError(told)
        consumer.close()


def test_a_client_says_which_release_it_needs():
    def alter(kafka):
        entry = ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(confluent_kafka.admin.RESOURCE_TOPIC, "t", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        [altered] = admin.incremental_alter_configs([resource]).values()
        altered.result(30)

    with broker(like="2.3") as kafka:
        kafka.create_topic("t")
        alter(kafka)
    with broker(like="2.2") as kafka:
        kafka.create_topic("t")
        with pytest.raises(KafkaException, match=r"requires broker version >= 2\.3"):
            alter(kafka)


def test_an_unknown_release_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"must be one of: 0\.11, 1\.0"):
        broker(like="2.9").start()


def test_a_broker_may_be_another_release_after_a_restart(tmp_path):
    for number, release in enumerate(("4.4", "2.0", "4.0")):
        with broker(tmp_path / "data", {"log.retention.ms": -1}, like=release) as kafka, raw(kafka) as client:
            if not number:
                kafka.create_topic("t")
            client.produce("t", batch_of(b"%d" % number), version=3)
            assert (
                client.call(fetch_request("t", [(0, number)]), 8).responses[0].partitions[0].high_watermark
                == number + 1
            )
