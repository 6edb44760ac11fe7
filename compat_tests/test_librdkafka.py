"""confluent-kafka against Odradek and Apache Kafka."""

import pytest

from compat_tests.clients import librdkafka as client
from compat_tests.comparison import Case, CaseBook, Comparison
from compat_tests.consumer_protocol import add_consumer_protocol
from compat_tests.librdkafka_groups import add_groups
from compat_tests.scenarios import add_all, add_transactions

pytestmark = pytest.mark.core
BOOK = CaseBook("librdkafka")
add_all(BOOK, client)
add_transactions(BOOK, client)
add_consumer_protocol(BOOK, client)
add_groups(BOOK)


@pytest.mark.parametrize("case", BOOK.params())
def test_case(case: Case, comparison: Comparison) -> None:
    comparison.check(case)
