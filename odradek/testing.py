"""A real broker inside a test: `with odradek.broker() as b: Producer({"bootstrap.servers": b.bootstrap})`.

It is the production broker on a free port of the loopback interface, in a thread of its own, with its data in memory
or, given a directory or a storage URL, in that store. `async with` works under Trio and asyncio. The pytest plugin that
comes with the package offers the same as fixtures: `kafka_broker` and `kafka_topic`.

`with odradek.cluster(brokers=3) as c` starts a cluster of processes, whose brokers a test may `kill`, `pause` and
`restart`; the fixture is `kafka_cluster`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from odradek.gateway.testing.cluster import TestCluster, cluster
from odradek.gateway.testing.in_process import TestBroker, broker

if TYPE_CHECKING:
    from odradek.gateway.testing.kit.errors import KitError, UnknownGroupError, UnknownTopicError
    from odradek.gateway.testing.kit.values import CommittedOffset, NewRecord, Record, TopicPartition

__all__ = [
    "CommittedOffset",
    "KitError",
    "NewRecord",
    "Record",
    "TestBroker",
    "TestCluster",
    "TopicPartition",
    "UnknownGroupError",
    "UnknownTopicError",
    "broker",
    "cluster",
]

_MODULES = ("odradek.gateway.testing.kit.values", "odradek.gateway.testing.kit.errors")


def __getattr__(name: str) -> object:
    """Import the values of the kit at first use, so that a broker starts faster."""
    if name in __all__:
        for module in map(import_module, _MODULES):
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
