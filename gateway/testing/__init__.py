"""A real broker inside a test: `with gateway.testing.broker() as b: Producer({"bootstrap.servers": b.bootstrap})`.

It is the production broker on a free port of the loopback interface, in a thread of its own, with its data in memory
or, given a directory, in LMDB segments. `async with` works under Trio and asyncio alike. The pytest plugin that comes
with the package offers the same as fixtures: `kafka_broker` and `kafka_topic`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.testing.in_process import TestBroker, broker

__all__ = ["TestBroker", "broker"]


def __getattr__(name: str) -> object:
    """Import at first use: the pytest plugin of this package is imported in every test run of every project."""
    if name not in __all__:
        raise AttributeError(name)
    from gateway.testing import in_process

    return getattr(in_process, name)
