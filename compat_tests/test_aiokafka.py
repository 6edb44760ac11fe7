"""aiokafka against Odradek and Apache Kafka."""

import pytest

from compat_tests.clients import aiokafka_client as client
from compat_tests.comparison import Case, CaseBook, Comparison
from compat_tests.scenarios import add_all, add_transactions

BOOK = CaseBook("aiokafka")
add_all(BOOK, client)
add_transactions(BOOK, client)


@pytest.mark.parametrize("case", BOOK.params())
def test_case(case: Case, comparison: Comparison) -> None:
    comparison.check(case)
