"""One set of settings is converted to librdkafka's and Java's."""

import pytest

from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError

SECURED = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.plain.username": 'a"b',
    "sasl.plain.password": "c\\d",
    "ssl.cafile": "/ca.pem",
}


def test_librdkafka_gets_its_own_names():
    assert Connection("b:1", SECURED).for_librdkafka() == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'a"b',
        "sasl.password": "c\\d",
        "ssl.ca.location": "/ca.pem",
    }


def test_java_gets_its_own_names():
    assert Connection("b:1", SECURED).for_spark() == {
        "kafka.bootstrap.servers": "b:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="a\\"b" password="c\\\\d";',
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.ssl.truststore.type": "PEM",
    }


def test_both_of_librdkafkas_names_of_the_mechanism_are_accepted():
    renamed = {name.replace("sasl.mechanism", "sasl.mechanisms"): value for name, value in SECURED.items()}
    assert Connection("b:1", renamed).for_spark() == Connection("b:1", SECURED).for_spark()
    assert Connection("b:1", renamed).for_librdkafka() == Connection("b:1", SECURED).for_librdkafka()


def test_what_java_cannot_read_is_refused():
    with pytest.raises(PipelineError, match=r"ssl\.keystore\.location"):
        Connection("b:1", {"ssl.key.location": "/key.pem"}).for_spark()
