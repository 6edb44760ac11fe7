"""Client libraries' own integration tests: whatever passes on a real Kafka passes on Odradek in the same run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from compat_tests.comparison import Comparison, is_missing
from compat_tests.suites import franz_go, kafka_python
from compat_tests.suites.results import Result, Skip, Status, judge, table
from wire.api_keys import ADVERTISED

pytestmark = pytest.mark.client_suites
RECORDS = 20_000
LIMIT_S = 240


def check(
    comparison: Comparison,
    run: Callable[[str], dict[str, Result]],
    skips: Sequence[Skip],
    *,
    at_once: bool = True,
) -> dict[str, Result]:
    """Run on both sides, compare, and return what Odradek's side gave."""
    assert comparison.kafka is not None, "no real Kafka here (ODRADEK_NO_JAVA=1)"
    with ThreadPoolExecutor(2 if at_once else 1) as pool:
        kafkas, ours = pool.map(run, [comparison.kafka.bootstrap, comparison.odradek.bootstrap])
    verdicts = judge(kafkas, ours, skips, ADVERTISED)
    assert [v for v in verdicts if not v.is_good] == [], "\n".join(table(verdicts))
    return ours


def needs(what: str) -> None:
    if is_missing(what):
        pytest.skip(f"not run: no {what}, and the environment says that this is known")


def offered(results: dict[str, Result]) -> set[str]:
    return {test for test, result in results.items() if result.status is Status.PASSED}


@pytest.mark.timeout(900)
def test_franz_go_group_and_transaction_etl(comparison: Comparison) -> None:
    needs("go")
    needs("java")
    franz_go.test_binary(franz_go.PACKAGE)
    # In turns: a KIP-848 member of this client is silent while it revokes and waits for its produces. Where two cores
    # have both sides to serve, and something else, its session of 4 s may end meanwhile. Kafka's run failed so, too.
    ours = check(
        comparison,
        lambda at: franz_go.run(at, franz_go.ETL, records=RECORDS, timeout_s=LIMIT_S),
        franz_go.SKIPS,
        at_once=False,
    )
    for chain in franz_go.ETL:
        assert {f"{chain}/range", f"{chain}/cooperative-sticky", f"{chain}/cooperative-sticky/static"} <= offered(ours)


@pytest.mark.timeout(900)
def test_franz_go_others(comparison: Comparison) -> None:
    needs("go")
    needs("java")
    franz_go.test_binary(franz_go.PACKAGE)
    # Those that skip themselves here would only take Kafka's time; docs/client_suites.md has them.
    tests = [t for t in franz_go.OTHERS if not any(skip.covers(t, ADVERTISED) for skip in franz_go.SKIPS)]
    ours = check(comparison, lambda at: franz_go.run(at, tests, records=RECORDS, timeout_s=LIMIT_S), franz_go.SKIPS)
    assert {"TestGroupSimple/classic", "TestConsumeRegex", "TestClient_Produce"} <= offered(ours)


@pytest.mark.timeout(600)
def test_kafka_python(comparison: Comparison) -> None:
    needs("java")
    kafka_python.source()  # once, not by both sides
    ours = check(
        comparison,
        lambda at: kafka_python.run(at, only=kafka_python.BOUNDED, timeout_s=LIMIT_S * 2),
        kafka_python.SKIPS,
    )
    assert {"test_group", "test_transactional_producer_messages", "test_delete_records"} <= offered(ours)
