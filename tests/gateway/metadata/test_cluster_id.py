"""The cluster id: a property of the store that exists before any metadata, with a copy in the metadata log."""

import json
import logging
import shutil

import pytest
import trio
from click.testing import CliRunner
from gateway_brokers import FaultyEnvironment, ThreadBroker, logged
from gateway_client import RawClient, batch_of

from odradek.gateway.cli.main import cli
from odradek.gateway.errors import StartError, first_error
from odradek.gateway.metadata.cluster_id import PROPERTY, ClusterId
from odradek.storage_backends.opener import open_store
from odradek.wire.messages.describe_cluster import DescribeClusterRequest

OURS, OTHER = "4L6g3nShT-eMCtK--X86sw", "MkU3OEVBNTcwNTJENDM2Qk"
GIVEN = {"odradek_cluster_id": OURS}


@pytest.fixture
def storage(tmp_path):
    return f"lmdb://{tmp_path}/data"


@pytest.fixture
def properties(tmp_path):
    return tmp_path / "data" / "properties.json"


def described(broker):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        return client.call(DescribeClusterRequest()).cluster_id


def started(storage, **config):
    """Starts and stops a broker; returns the cluster id that its clients got."""
    with ThreadBroker(storage, **config) as broker, RawClient(broker.address) as client:
        return client.call(DescribeClusterRequest()).cluster_id


def failing():
    """An environment whose store fails its first write."""
    env = FaultyEnvironment()
    env.fail_next_write()
    return env


def refusal(storage, env=FaultyEnvironment, **config):
    with pytest.raises(BaseExceptionGroup) as failed:
        ThreadBroker(storage, env, **config).start()
    error = first_error(failed.value)
    assert isinstance(error, StartError)
    return str(error)


def test_a_store_without_metadata_is_formatted_once():
    store = open_store("memory://")

    async def formatted(configured: str) -> str:
        cluster_id = ClusterId(store, FaultyEnvironment(), configured)
        cluster_id.read(store.properties())
        await cluster_id.format({"node.id": "1"})
        return cluster_id.text

    assert trio.run(formatted, OURS) == trio.run(formatted, "") == OURS
    assert store.properties() == {PROPERTY: OURS, "node.id": "1"}
    with pytest.raises(StartError, match=f"belongs to cluster {OURS}, not to {OTHER}"):
        trio.run(formatted, OTHER)


def test_the_id_is_stored_and_stays(storage, properties):
    first = started(storage)
    assert len(first) == 22
    assert json.loads(properties.read_text())[PROPERTY] == first
    assert started(storage) == first
    assert refusal(storage, **GIVEN).startswith(f"This storage belongs to cluster {first}, not to {OURS}.")


def test_a_new_store_that_cannot_be_written_is_not_served(storage, properties):
    said = refusal(storage, failing)
    assert said.startswith("the cluster's id cannot be stored: ")
    assert "injected fault" in said
    assert len(started(storage)) == 22


def test_data_of_a_version_that_had_the_id_in_the_metadata_log_alone_are_opened(storage, properties):
    with ThreadBroker(storage, **GIVEN) as broker:
        assert described(broker) == OURS
    properties.unlink()
    assert refusal(storage, odradek_cluster_id=OTHER).startswith(f"This storage belongs to cluster {OURS}, not to")
    assert not properties.exists()
    assert started(storage) == OURS
    assert json.loads(properties.read_text())[PROPERTY] == OURS


def test_they_are_served_while_the_store_takes_no_writes(storage, properties, broker_log):
    assert started(storage, **GIVEN) == OURS
    properties.unlink()

    with ThreadBroker(storage, failing) as broker:
        assert described(broker) == OURS
    assert logged(broker_log, logging.WARNING, "cannot store the cluster's id", "injected fault")
    assert PROPERTY not in json.loads(properties.read_text())
    assert started(storage) == OURS
    assert json.loads(properties.read_text())[PROPERTY] == OURS


def test_a_lost_metadata_log_is_made_again_with_the_stores_id(storage, tmp_path):
    with ThreadBroker(storage) as broker:
        before = described(broker)
        with RawClient(broker.address) as client:
            assert client.produce("t", batch_of(b"x")).error_code == 0
    for log in (tmp_path / "data").glob("__cluster_metadata-0.*"):
        shutil.rmtree(log)
    CliRunner().invoke(cli, ["recover", "--data", str(tmp_path / "data"), "--yes"], catch_exceptions=False)
    assert started(storage) == before


def test_the_files_of_two_clusters_are_not_served(storage, properties):
    assert started(storage, **GIVEN) == OURS
    properties.write_text(json.dumps({PROPERTY: OTHER}))
    assert f"the metadata log is of cluster {OURS}, and the store was formatted for {OTHER}" in refusal(storage)
