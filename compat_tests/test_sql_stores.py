"""The core of the comparison over SQLite and over PostgreSQL; `make compat-sql` runs all of it there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from compat_tests import test_kafka_python, test_librdkafka, test_spark
from compat_tests.brokers import Odradek
from compat_tests.comparison import LIMIT_S, Case, CaseBook, Comparison

pytestmark = pytest.mark.skipif(
    os.environ.get("ODRADEK_COMPAT_STORAGE", "lmdb") != "lmdb", reason="the whole comparison runs over another store"
)
CORE = {
    "librdkafka": {"crash-resume", "two-groups", "transactions", "consumer-protocol", "codecs"},
    "kafka-python": {"two-groups", "transactions", "offsets-by-time"},
    "spark": {"headers"},
}
BOOKS: list[CaseBook] = [each.BOOK for each in (test_librdkafka, test_kafka_python, test_spark)]


def core() -> Iterator[object]:
    """Cases with groups, transactions, crashes and Spark."""
    for book in BOOKS:
        found = [case for case in book.cases if case.name in CORE[book.client]]
        assert {case.name for case in found} == CORE[book.client]
        for case in found:
            yield pytest.param(case, id=f"{case.client}-{case.name}", marks=pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def over_sql(request: pytest.FixtureRequest, comparison: Comparison) -> Iterator[Comparison]:
    """The real Kafka of the session, compared with a broker over a database."""
    odradek = Odradek(request.param)
    yield Comparison(comparison.kafka, odradek, comparison.resources, prefix=f"{request.param}.")
    odradek.stop()


@pytest.mark.parametrize("case", list(core()))
def test_case(case: Case, over_sql: Comparison) -> None:
    over_sql.check(case)
