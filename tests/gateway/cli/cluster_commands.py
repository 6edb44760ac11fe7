"""Commands of `odradek` against a cluster of which some brokers may be down."""

import subprocess
import sys

from odradek.gateway.testing.cluster import TestCluster


def run(cluster: TestCluster, *arguments: str, stdin: str | None = None, code: int = 0) -> str:
    """In a process of its own: kafka-python does not close its sockets to brokers that are down."""
    down = [node for node in cluster.ids if not cluster.node(node).is_running]
    command = [sys.executable, "-m", "odradek", *arguments, "--bootstrap", cluster.bootstrap_without(*down)]
    done = subprocess.run(
        command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == code, done.stdout
    return done.stdout
