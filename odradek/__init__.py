"""Odradek: the Kafka you pip install.

`odradek.broker()` is a real broker for tests and programs, `odradek.cluster()` several, `odradek serve` the command,
`odradek.pytest_plugin` the fixtures. Everything else is inside: docs/architecture.md has the map of the packages.

In the repository the packages stand at the top (`gateway/`, `wire/`, …), and this folder links to them; in an installed
distribution they are ordinary folders in here.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.testing import (
        CommittedOffset,
        KitError,
        NewRecord,
        Record,
        TestBroker,
        TestCluster,
        TopicPartition,
        UnknownGroupError,
        UnknownTopicError,
        broker,
        cluster,
    )

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


def __getattr__(name: str) -> object:
    """Import at first use: the pytest plugin imports this package in every test run of every project."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from odradek.interpreter import check_interpreter

    check_interpreter()
    from odradek import testing

    return getattr(testing, name)


def __dir__() -> list[str]:
    """The public names, also before their import."""
    return __all__
