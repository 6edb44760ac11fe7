"""An archived table is compared with its topic by `audit`, record by record."""

import pytest

import odradek
from odradek.pipeline import archive, audit
from odradek.pipeline.connection import Connection
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.wire.records.builder import SimpleRecord, build_batch
from tests.pipeline.archive.topics import create

DAY_MS = 86_400_000


def import_days(connection, *values):
    """Records at consecutive offsets, those at odd offsets a day later than the others."""
    create(connection, "t", 1)
    records = [SimpleRecord(b"k", value, DAY_MS * (10 + offset % 2)) for offset, value in enumerate(values)]
    batches = [build_batch([record], base_offset=offset) for offset, record in enumerate(records)]
    with WireClient(connection) as client:
        answer = client.import_batches({TopicPartition("t", 0): b"".join(batches)})
    assert [each.error for each in answer.values()] == [0]


@pytest.mark.parametrize("partition_by", ["none", "date"])
def test_a_table_is_read_in_order_of_offsets(spark, connection, tmp_path, partition_by):
    """Each day is a file, and their offsets interleave."""
    import_days(connection, *[b"%d" % number for number in range(20)])
    archive(spark, "t", str(tmp_path / "table"), connection=connection, partition_by=partition_by)
    report = audit(connection, "t", archive=str(tmp_path / "table"))
    assert report.complete, report.notes
    assert any("identical, 20 records compared" in note for note in report.notes)


def test_one_byte_of_a_table_is_found(spark, connection, tmp_path):
    import_days(connection, b"abc", b"abc", b"abc")
    with odradek.broker() as changed:
        import_days(Connection(changed.bootstrap), b"abc", b"abd", b"abc")
        archive(spark, "t", str(tmp_path / "table"), connection=Connection(changed.bootstrap))
    report = audit(connection, "t", archive=str(tmp_path / "table"))
    assert not report.complete
    assert "0 missing, 0 extra, 1 different (offset 1 differs in value)" in report.notes[0]
