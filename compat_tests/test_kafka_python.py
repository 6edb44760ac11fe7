"""kafka-python against Odradek and Apache Kafka."""

import pytest

from compat_tests.clients import kafka_python as client
from compat_tests.comparison import Case, CaseBook, Comparison
from compat_tests.scenarios import add_all, add_transactions

pytestmark = pytest.mark.core
BOOK = CaseBook("kafka-python")
add_all(BOOK, client)
add_transactions(BOOK, client)


@pytest.mark.parametrize("case", BOOK.params())
def test_case(case: Case, comparison: Comparison) -> None:
    comparison.check(case)
