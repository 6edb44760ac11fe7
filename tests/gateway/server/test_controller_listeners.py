"""Controller listeners are bound, have their own table of API versions, and are not advertised to clients."""

import pytest
from gateway_brokers import ThreadBroker, free_port
from gateway_client import RawClient

from odradek.wire.api_keys import ADVERTISED, CONTROLLER_ADVERTISED, ApiKey
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.describe_cluster import DescribeClusterRequest
from odradek.wire.messages.heartbeat import HeartbeatRequest
from odradek.wire.messages.metadata import MetadataRequest

WHO = ApiVersionsRequest(client_software_name="t", client_software_version="1")


@pytest.fixture(scope="module")
def combined():
    port, controller_port = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller_quorum_voters": f"1@127.0.0.1:{controller_port}",
        "process_roles": "broker,controller",
    }
    with ThreadBroker(**settings) as broker:
        yield broker, ("127.0.0.1", controller_port)


def served(client: RawClient) -> dict[ApiKey, tuple[int, int]]:
    return {ApiKey(each.api_key): (each.min_version, each.max_version) for each in client.call(WHO).api_keys}


def test_each_kind_of_listener_has_its_table(combined):
    broker, controller = combined
    with RawClient(broker.address) as client:
        assert served(client) == ADVERTISED
    with RawClient(controller) as client:
        assert served(client) == CONTROLLER_ADVERTISED


@pytest.mark.parametrize("request_of_clients", [MetadataRequest(), HeartbeatRequest(group_id="g")])
def test_what_is_for_clients_is_not_served_to_controllers(combined, request_of_clients):
    with RawClient(combined[1]) as client:
        client.send(request_of_clients)
        assert client.is_closed_by_broker()


def test_clients_do_not_see_them(combined):
    broker, _ = combined
    with RawClient(broker.address) as client:
        [described] = client.call(DescribeClusterRequest()).brokers
        assert (described.host, described.port) == broker.address
        [listed] = client.call(MetadataRequest()).brokers
        assert (listed.host, listed.port) == broker.address
