"""Fixtures for tests of the gateway: a broker in memory per module, and a check of its log."""

import gc
import logging
from itertools import count

import pytest
from faults import Faults
from gateway_brokers import ThreadBroker, internal_errors
from gateway_client import RawClient

_names = count()


@pytest.fixture(scope="module")
def shared_broker():
    with ThreadBroker() as running:
        yield running


@pytest.fixture
def client(shared_broker):
    with RawClient(shared_broker.address) as connected:
        yield connected


@pytest.fixture
def topic(client):
    """A new topic with one partition."""
    name = f"topic-{next(_names)}"
    client.create_topic(name)
    return name


@pytest.fixture
def broker_log(caplog):
    """The log from debug level up; the test fails if the broker logged an internal error."""
    caplog.set_level(logging.DEBUG, "odradek")
    yield caplog
    assert internal_errors(caplog.records) == []


@pytest.fixture
def no_collector():
    """Disables the garbage collector, which would also traverse the test's own objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def faults(tmp_path, monkeypatch):
    """Faults below LMDB, for brokers that the test starts as processes."""
    faults = Faults(tmp_path)
    for name, value in faults.environment.items():
        monkeypatch.setenv(name, value)
    return faults
