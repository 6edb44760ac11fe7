"""A table is restored to a topic of a real Kafka, which assigns consecutive offsets: gaps are filled invisibly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid1

import pytest

from compat_tests.brokers import Broker
from compat_tests.comparison import Comparison
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.report import Report
from odradek.pipeline.restoring.bounds import Bound
from odradek.pipeline.restoring.job import restore
from odradek.pipeline.restoring.renumbered import provenance_of
from tests.pipeline.restore.restore_tables import GAPS, ODD, Archived, bounds_of, records_of, write_table

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.timeout(300), pytest.mark.spark]
LAX = {"max.message.bytes": "10000000", "message.timestamp.after.max.ms": str(2**63 - 1)}
"""A real Kafka refuses records of the future and large ones by default."""


@pytest.fixture
def topic() -> str:
    return f"restored-{uuid1().hex}"


@pytest.fixture
def run(comparison: Comparison, real_kafka: Broker, tmp_path: Path, topic: str) -> Callable[..., Report]:
    def run_it(rows: list[Archived], **options: object) -> Report:
        table = write_table(tmp_path / "table", rows)
        connection = Connection(real_kafka.bootstrap)
        return restore(comparison.resources.spark(), table, connection=connection, to_topic=topic, **options)

    return run_it


def test_records_come_back_at_their_offsets(run: Callable[..., Report], real_kafka: Broker, topic: str):
    archived = [*ODD, *GAPS]
    report = run(archived, topic_config=LAX)
    assert report.complete, report.notes
    assert report.details["way"] == "produce"
    restored = records_of(real_kafka.bootstrap, topic, 2)
    assert restored == [one._replace(headers=tuple(one.headers)) for one in archived]
    assert bounds_of(real_kafka.bootstrap, topic, 0) == (0, 7)
    assert bounds_of(real_kafka.bootstrap, topic, 1) == (3, 41)

    later = [*archived, Archived(1, 44, b"later")]
    again = run(later)
    assert (again.complete, again.written, again.skipped) == (
        True,
        1,
        {"already there": len(archived), "gap filled": 3},
    )
    assert records_of(real_kafka.bootstrap, topic, 2)[-1] == later[-1]


def test_gaps_beyond_the_bound_are_refused(run: Callable[..., Report], real_kafka: Broker, topic: str):
    with pytest.raises(PipelineError, match=r"35 offsets have no record.*--max-fill.*--renumber"):
        run(GAPS, max_fill=34)
    assert bounds_of(real_kafka.bootstrap, topic, 1) == (0, 0)
    assert run(GAPS, max_fill=35).complete


def test_a_topic_that_changes_timestamps_is_refused(run: Callable[..., Report], real_kafka: Broker, topic: str):
    with pytest.raises(PipelineError, match="LogAppendTime"):
        run(ODD, topic_config={"message.timestamp.type": "LogAppendTime"})


def test_a_topic_that_is_only_compacted(run: Callable[..., Report], real_kafka: Broker, topic: str):
    rows = [Archived(0, offset, b"v", b"k%d" % offset) for offset in (4, 6)]
    report = run(rows, topic_config={"cleanup.policy": "compact"})
    assert report.complete, report.notes
    assert records_of(real_kafka.bootstrap, topic) == rows
    assert bounds_of(real_kafka.bootstrap, topic) == (0, 7)


def test_new_offsets(run: Callable[..., Report], real_kafka: Broker, topic: str):
    archived = [*GAPS, *ODD[:5]]
    report = run(archived, renumber=True, until=Bound(offset=10), topic_config=LAX)
    assert report.complete, report.notes
    again = run(archived, renumber=True)
    assert (again.complete, again.written) == (True, 3)
    found = records_of(real_kafka.bootstrap, topic, 2, isolation="read_committed")
    provenances = [provenance_of(one.headers) for one in found]
    assert [(one.partition, one.offset) for one in provenances if one] == [
        (one.partition, one.offset) for one in [*ODD[:5], *GAPS]
    ]


def test_a_killed_writer_that_fills_gaps_is_continued(real_kafka: Broker, tmp_path: Path, topic: str):
    rows = [Archived(0, offset, b"%d" % offset) for offset in range(5, 2_000) if offset % 40]
    table = write_table(tmp_path / "table", rows)
    with Cluster(Connection(real_kafka.bootstrap)) as cluster:
        cluster.create_topic(topic, 1, {"retention.ms": "-1"})
    writer = Path(__file__).parent.parent / "tests" / "pipeline" / "restore" / "restore_writer.py"
    command = [sys.executable, str(writer), str(table), topic, real_kafka.bootstrap, "produce"]
    for goal in (300, 1_100):
        with subprocess.Popen(command) as process:
            while bounds_of(real_kafka.bootstrap, topic)[1] < goal:
                assert process.poll() is None
            process.kill()
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert records_of(real_kafka.bootstrap, topic) == rows
    assert bounds_of(real_kafka.bootstrap, topic) == (5, 2_000)
