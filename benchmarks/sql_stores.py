"""Odradek over SQLite and PostgreSQL, with sync, compared with Odradek over LMDB, also with sync, and Kafka as shipped.
PostgreSQL is a separate server with its default, durable settings, on this machine, connected by TCP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from benchmarks import consume, produce
from benchmarks.brokers import RunningBroker, Side
from benchmarks.cases import ODRADEK, Case, Effort, Figure, Mode, NotMeasuredError
from tests.postgres import Postgres, programs

Measure = Callable[..., Mapping[str, float]]
FIGURES = (*produce.MB_A_SECOND, Figure("of_lmdb", "of LMDB's"))
STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def over(store: str, measure: Measure, side: Side, _mode: Mode, effort: Effort) -> Mapping[str, float]:
    """The figures of `measure` over the store, and `of_lmdb`, the rate divided by LMDB's measured just before."""
    if side.name != ODRADEK:
        return measure(side, Mode.PAGE_CACHE, effort)
    lmdb = measure(side, Mode.FSYNC, effort)
    with _broker(store, side) as broker:
        measure(_Fixed(broker), Mode.FSYNC, effort)  # not counted: the first topic includes imports and new files
        found = measure(_Fixed(broker), Mode.FSYNC, effort)
    return {**found, "of_lmdb": found["rate"] / lmdb["rate"]}


class _Fixed:
    """A side with one broker."""

    name = ODRADEK

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker


@contextmanager
def _broker(store: str, side: Side) -> Iterator[RunningBroker]:
    with _url(store) as url:
        broker = side.fresh({"odradek.storage": url})
        try:
            yield broker
        finally:
            broker.stop()


@contextmanager
def _url(store: str) -> Iterator[str]:
    """The URL of the store; the broker replaces `{home}` by its directory."""
    if store == "sqlite":
        yield "sqlite://{home}/store.db"
        return
    found = programs()
    if found is None:
        raise NotMeasuredError("no PostgreSQL: run scripts/ensure_postgres.sh")
    server = Postgres(found, durable=True)
    try:
        server.start()
        yield server.create_database()
    finally:
        server.remove()


def _case(store: str, name: str, title: str, measure: Measure) -> Case:
    return Case(
        f"{store}-{name}", f"{title}, {STORES[store]}", FIGURES, partial(over, store, measure), modes=(Mode.ANY,)
    )


CASES = tuple(
    _case(store, name, title, measure)
    for store in STORES
    for name, title, measure in (
        ("produce-1k", "produce 1 KB", partial(produce.librdkafka, size_bytes=1000)),
        ("produce-16p", "produce 1 KB, 16 partitions", partial(produce.librdkafka, size_bytes=1000, partitions=16)),
        ("produce-100b", "produce 100 B", partial(produce.librdkafka, size_bytes=100)),
        ("produce-1k-java", "produce 1 KB, Java", partial(produce.java, size_bytes=1000)),
        ("consume", "consume 1 KB", consume.librdkafka),
    )
)
