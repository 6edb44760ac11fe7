"""A real broker inside a test: `with odradek.broker() as b: Producer({"bootstrap.servers": b.bootstrap})`.

It is the production broker on a free port of the loopback interface, in a thread of its own, with its data in memory
or, given a directory or a storage URL, in that store. `async with` works under Trio and asyncio. The pytest plugin that
comes with the package offers the same as fixtures: `kafka_broker` and `kafka_topic`.

`with odradek.cluster(brokers=3) as c` starts a cluster of processes, whose brokers a test may `kill`, `pause` and
`restart`; the fixture is `kafka_cluster`.
"""

from odradek.gateway.testing.cluster import TestCluster, cluster
from odradek.gateway.testing.in_process import TestBroker, broker

__all__ = ["TestBroker", "TestCluster", "broker", "cluster"]
