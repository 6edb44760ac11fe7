"""The closing report of a job."""

from collections import Counter

import pytest

from odradek.pipeline.report import PartitionReport, Report


def test_it_adds_up_and_prints(capsys: pytest.CaptureFixture[str]):
    report = Report(
        "archive",
        [
            PartitionReport(
                "t", 0, 0, 10, read=8, written=7, skipped=Counter({"transaction marker": 2, "dead letter": 1})
            ),
            PartitionReport("t", 1, 5, 6, read=1, written=1),
        ],
    )
    report.incomplete("partition 1 is gone")
    report.print_table()
    assert "1 dead letter, 2 transaction marker" in capsys.readouterr().out
    value = report.as_json()
    assert (value["read"], value["written"], value["complete"]) == (9, 8, False)
    assert value["skipped"] == {"transaction marker": 2, "dead letter": 1}
