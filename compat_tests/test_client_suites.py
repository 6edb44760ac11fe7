"""Client libraries' own integration tests: a test that passes on a real Kafka passes on Odradek in the same run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from kafka.cluster import ClusterMetadata
from kafka.protocol.metadata import MetadataResponse

from compat_tests.comparison import Comparison, is_missing
from compat_tests.suites import franz_go, kafka_python
from compat_tests.suites.kafka_python_metadata import MendedMetadata
from compat_tests.suites.results import Result, Skip, Status, judge, table
from odradek.wire.api_keys import ADVERTISED

pytestmark = pytest.mark.client_suites
RECORDS = 20_000
LIMIT_S = 240


def check(comparison: Comparison, run: Callable[[str], dict[str, Result]], skips: Sequence[Skip]) -> dict[str, Result]:
    """Runs on one side after the other, compares, and returns the results on Odradek.

    The sides do not run in parallel: on two cores they slow each other's members down, whose sessions of 4 s may then
    end.
    """
    assert comparison.kafka is not None, "no real Kafka here (ODRADEK_NO_JAVA=1)"
    kafkas, ours = run(comparison.kafka.bootstrap), run(comparison.odradek.bootstrap)
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
    ours = check(
        comparison, lambda at: franz_go.run(at, franz_go.ETL, records=RECORDS, timeout_s=LIMIT_S), franz_go.SKIPS
    )
    for chain in franz_go.ETL:
        assert {f"{chain}/range", f"{chain}/cooperative-sticky", f"{chain}/cooperative-sticky/static"} <= offered(ours)


@pytest.mark.timeout(900)
def test_franz_go_others(comparison: Comparison) -> None:
    needs("go")
    needs("java")
    # Tests that skip themselves on Odradek only cost time on Kafka; docs/client_suites.md has them.
    tests = [t for t in franz_go.OTHERS if not any(skip.covers(t, ADVERTISED) for skip in franz_go.SKIPS)]
    ours = check(comparison, lambda at: franz_go.run(at, tests, records=RECORDS, timeout_s=LIMIT_S), franz_go.SKIPS)
    assert {"TestGroupSimple/classic", "TestConsumeRegex", "TestClient_Produce"} <= offered(ours)


@pytest.mark.timeout(1200)
def test_kafka_python(comparison: Comparison) -> None:
    needs("java")
    ours = check(
        comparison,
        lambda at: kafka_python.run(at, only=kafka_python.BOUNDED, timeout_s=LIMIT_S * 2),
        kafka_python.SKIPS,
    )
    assert {"test_group", "test_transactional_producer_messages", "test_delete_records"} <= offered(ours)


def metadata_without_topics() -> MetadataResponse:
    broker = MetadataResponse.MetadataResponseBroker(version=13, node_id=1, host="127.0.0.1", port=9092, rack=None)
    return MetadataResponse(version=13, brokers=[broker], cluster_id="c", controller_id=1, topics=[])


@pytest.mark.parametrize("kind", [ClusterMetadata, MendedMetadata])
def test_kafka_python_forgets_topics_set_while_it_asks_unless_mended(kind: type[ClusterMetadata]) -> None:
    """Fails once a version of the client no longer needs `kafka_python_metadata`."""
    metadata = kind()
    metadata.metadata_request()
    metadata.set_topics(["set-meanwhile"])
    metadata.update_metadata(metadata_without_topics())
    assert metadata.need_update is (kind is MendedMetadata)
    metadata.metadata_request()
    metadata.update_metadata(metadata_without_topics())
    assert not metadata.need_update
