"""Commands of `odradek` with a cluster that may have stopped brokers."""

import subprocess
import sys

from odradek.gateway.testing.cluster import TestCluster


def run(cluster: TestCluster, *arguments: str, stdin: str | None = None, code: int = 0) -> str:
    """Runs a command in a separate process: kafka-python does not close its sockets to brokers that are down."""
    down = [node for node in cluster.ids if not cluster.node(node).is_running]
    command = [sys.executable, "-m", "odradek", *arguments, "--bootstrap", cluster.bootstrap_without(*down)]
    done = subprocess.run(
        command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == code, done.stdout
    return done.stdout
