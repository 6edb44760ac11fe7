"""The same records archived from a real Kafka and from Odradek give equal tables."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid1

import pytest

from compat_tests.brokers import Broker
from compat_tests.comparison import Comparison
from odradek.pipeline.archiving.job import archive
from odradek.pipeline.connection import Connection
from odradek.pipeline.report import Report
from odradek.pipeline.table import read_dead_letters, read_table
from odradek.pipeline.values.parsing import Parsing
from tests.pipeline.archive import topics

pytestmark = [pytest.mark.timeout(300), pytest.mark.spark]


def archived(comparison: Comparison, broker: Broker, topic: str, path: Path) -> Report:
    """Two runs over a topic with plain, null, invalid and transactional records, one transaction being aborted."""
    connection = Connection(broker.bootstrap)
    topics.create(connection, topic, 2)
    for part in ([b'{"n":%d}' % n if n % 9 else b"poison" for n in range(300)], [None, b'{"n":1.5}']):
        for partition in range(2):
            topics.produce(connection, topic, part, partition)
        topics.produce_transactions(connection, topic, [True, False])
        topics.await_markers(connection, topic)
        spark = comparison.resources.spark()
        report = archive(spark, topic, str(path), connection=connection, value=Parsing("json"), max_offsets=350)
        assert report.complete, report.notes
    return report


def test_tables_are_equal(comparison: Comparison, tmp_path: Path):
    if comparison.kafka is None:
        pytest.skip("not compared: no real Kafka without Java (ODRADEK_NO_JAVA=1)")
    spark, topic = comparison.resources.spark(), f"archived-{uuid1().hex}"
    sides = {"kafka": comparison.kafka, "odradek": comparison.odradek}
    reports = {name: archived(comparison, broker, topic, tmp_path / name) for name, broker in sides.items()}
    assert reports["kafka"].as_json()["partitions"] == reports["odradek"].as_json()["partitions"]
    tables = [topics.rows(read_table(spark, tmp_path / name), *topics.COLUMNS, "parsed") for name in sides]
    assert len(tables[0]) == 2 * (300 - 34) + 4
    assert tables[0] == tables[1]
    dead = [topics.rows(read_dead_letters(spark, tmp_path / name), "value", "headers", "error") for name in sides]
    assert len(dead[0]) == 2 * 34 + 10
    assert dead[0] == dead[1]
