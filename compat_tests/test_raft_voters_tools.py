"""kafka-metadata-quorum, unmodified, adds a controller to a quorum of one, describes both, and removes one again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.clusters import OdradekNodes
from compat_tests.java_tools import ToolResult, run_tool_as
from compat_tests.processes import wait_for

pytestmark = pytest.mark.timeout(400)
TIMEOUT_S = 120


class GrowingNodes(OdradekNodes):
    """Two nodes whose only bootstrap server is the first: it creates the quorum, and the other follows."""

    def _format(self) -> None:
        for node in self.nodes.values():
            kept = [line for line in node.config.read_text().splitlines() if "controller.quorum.voters" not in line]
            kept.append(f"controller.quorum.bootstrap.servers={self.nodes[1].controller}")
            node.config.write_text("\n".join(kept) + "\n")


@pytest.fixture
def nodes() -> Iterator[GrowingNodes]:
    running = GrowingNodes(count=2)
    yield running
    running.stop()


def tool(nodes: GrowingNodes, *arguments: str) -> ToolResult:
    """Runs the tool with the controller listener of the first node."""
    asked = ("--bootstrap-controller", nodes[1].controller)
    return run_tool_as("kafka-metadata-quorum", *asked, *arguments, timeout_s=TIMEOUT_S)


def replicas(nodes: GrowingNodes) -> dict[int, tuple[str, str]]:
    """The directory and the status of each replica."""
    described = tool(nodes, "describe", "--replication")
    assert described.code == 0, described.stderr
    rows = [line.split() for line in described.lines[1:]]
    return {int(row[0]): (row[1], row[-1]) for row in rows}


def test_a_controller_is_added_and_removed(nodes: GrowingNodes) -> None:
    found: dict[str, Any] = {}

    def follows() -> bool:
        found["replicas"] = replicas(nodes)
        return 2 in found["replicas"]

    wait_for(follows, "the second node among the observers", timeout_s=TIMEOUT_S)
    assert [status for _, status in found["replicas"].values()] == ["Leader", "Observer"]
    directory_id = found["replicas"][2][0]
    status = tool(nodes, "describe", "--status")
    [cluster_id] = [line.split()[1] for line in status.lines if line.startswith("ClusterId:")]

    meta = nodes[2].home / "data" / "meta.properties"  # the tool reads this file
    wait_for(meta.exists, "the second node's meta.properties", timeout_s=TIMEOUT_S)
    ids = dict(line.split("=", 1) for line in meta.read_text().splitlines())
    assert ids == {"version": "1", "cluster.id": cluster_id, "node.id": "2", "directory.id": directory_id}
    config = nodes[2].config
    added = tool(nodes, "--command-config", str(config), "add-controller")
    assert added.code == 0, added.stderr
    assert f"CONTROLLER://{nodes[2].controller}" in added.stdout
    assert [status for _, status in replicas(nodes).values()] == ["Leader", "Follower"]
    status = tool(nodes, "describe", "--status")
    [voters] = [line for line in status.lines if line.startswith("CurrentVoters:")]
    assert all(f'"endpoints": ["CONTROLLER://{nodes[node].controller}"]' in voters for node in (1, 2))

    key = ("--controller-id", "2", f"--controller-directory-id={directory_id}")
    again = tool(nodes, "--command-config", str(config), "add-controller")
    assert again.code == 1
    assert "DuplicateVoterException" in again.stderr
    removed = tool(nodes, "remove-controller", *key)
    assert removed.code == 0, removed.stderr
    assert [status for _, status in replicas(nodes).values()] == ["Leader", "Observer"]
