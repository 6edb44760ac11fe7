"""A store belongs to the node that wrote it; another node id is refused."""

import json

import pytest
from gateway_brokers import FaultyEnvironment, ThreadBroker

from odradek.gateway.errors import StartError, first_error


def start_and_stop(storage: str, **config: str) -> None:
    with ThreadBroker(storage, **config):
        pass


def test_a_store_is_refused_under_another_node_id(tmp_path):
    storage = f"lmdb://{tmp_path}/data"
    start_and_stop(storage, node_id="3")
    start_and_stop(storage, node_id="3")
    with pytest.raises(BaseExceptionGroup) as failed:
        ThreadBroker(storage, FaultyEnvironment, node_id="4").start()
    error = first_error(failed.value)
    assert isinstance(error, StartError)
    expected = f"Stored node id 3 doesn't match configured node.id 4 in {tmp_path}/data: set node.id=3"
    assert expected in str(error)


def test_a_store_of_a_version_without_the_property_is_taken_over(tmp_path):
    storage, properties = f"lmdb://{tmp_path}/data", tmp_path / "data" / "properties.json"
    start_and_stop(storage)
    values = json.loads(properties.read_text())
    del values["node.id"]
    properties.write_text(json.dumps(values))
    start_and_stop(storage)
    assert json.loads(properties.read_text())["node.id"] == "1"
