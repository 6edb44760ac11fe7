"""Verdicts from the results of a published suite, and the parser of franz-go's output."""

import pytest

from compat_tests.suites import franz_go, kafka_python
from compat_tests.suites.results import Result, Skip, Status, judge, summary, table
from odradek.wire.api_keys import ApiKey

PASSED, FAILED, SKIPPED = Result(Status.PASSED), Result(Status.FAILED, said="boom"), Result(Status.SKIPPED)
GROUPS = Skip(r"Test\w+/848", "needs KIP-848", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
OFFERED = {ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1)}


@pytest.mark.parametrize(
    ("kafka", "odradek", "label"),
    [
        (PASSED, PASSED, "same"),
        (SKIPPED, SKIPPED, "same"),
        (FAILED, FAILED, "same"),
        (FAILED, PASSED, "better"),
        (PASSED, FAILED, "WORSE"),
        (PASSED, SKIPPED, "WORSE"),
        (SKIPPED, FAILED, "WORSE"),
        (FAILED, SKIPPED, "not on Kafka either"),
    ],
)
def test_a_test_must_do_as_well_as_on_kafka(kafka, odradek, label):
    (verdict,) = judge({"TestX": kafka}, {"TestX": odradek}, [GROUPS], {})
    assert verdict.label == label
    assert verdict.is_good is (label != "WORSE")


@pytest.mark.parametrize(
    ("kafka", "odradek", "label"),
    [
        ("a.SomeError: [Error 54] no ACLs", "a.SomeError: [Error 54] without an authorizer", "same"),
        ("a.SomeError: [Error 54] no ACLs", "a.SomeError: [Error 39] no ACLs", "WORSE"),
        ("a.SomeError: [Error 54] no ACLs", "a.OtherError: [Error 54] no ACLs", "WORSE"),
        ("AssertionError: 3 != 4", "KeyError: 'x'", "WORSE"),
        ("got 17 of 20 records of 0aff3e7", "got 3 of 20 records of 77dd0aa1", "same"),
        ("got 17 of 20 records", "unable to join", "WORSE"),
    ],
)
def test_two_failures_are_the_same_only_for_the_same_cause(kafka, odradek, label):
    sides = ({"TestX": Result(Status.FAILED, said=said)} for said in (kafka, odradek))
    (verdict,) = judge(*sides, [], {})
    assert verdict.label == label
    assert verdict.is_good is (label == "same")


def test_a_test_that_never_ran_here_is_worse():
    assert [v.label for v in judge({"TestX": PASSED}, {}, [], {})] == ["WORSE"]


def test_a_listed_skip_counts_only_while_the_api_is_not_advertised():
    kafka, odradek = {"TestX/848": PASSED}, {"TestX/848": SKIPPED}
    assert [v.label for v in judge(kafka, odradek, [GROUPS], {})] == ["skips itself"]
    assert [v.label for v in judge(kafka, odradek, [GROUPS], {ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 0)})] == [
        "skips itself"
    ]
    assert [v.label for v in judge(kafka, odradek, [GROUPS], OFFERED)] == ["WORSE"]


def test_a_failure_is_never_a_listed_skip():
    assert [v.label for v in judge({"TestX/848": PASSED}, {"TestX/848": FAILED}, [GROUPS], {})] == ["WORSE"]


def test_the_table_has_the_reason():
    verdicts = judge({"A": PASSED, "TestX/848": PASSED}, {"A": FAILED, "TestX/848": SKIPPED}, [GROUPS], {})
    assert table(verdicts)[2:] == [
        "| A | passed | failed | WORSE | boom |",
        "| TestX/848 | passed | skipped | skips itself | needs KIP-848 |",
    ]
    assert summary(verdicts) == "1 WORSE, 1 skips itself"


GO_OUTPUT = """\
\x16=== RUN   TestPing
\x16--- PASS: TestPing (0.25s)
\x16=== RUN   TestChain
\x16=== RUN   TestChain/848
    helpers_test.go:861: broker does not support it
\x16--- SKIP: TestChain/848 (0.00s)
\x16=== NAME  TestChain/range
    helpers_test.go:855: TestChain/range completed in 11.2s
    helpers_test.go:900: saw double offset
words without a line's end\x16--- FAIL: TestChain/range (1.50s)
\x16=== RUN   TestHang
panic: test timed out after 3s
"""


def test_go_output_is_read_line_by_line():
    assert franz_go.parse(GO_OUTPUT) == {
        "TestPing": Result(Status.PASSED, 0.25),
        "TestChain/848": Result(Status.SKIPPED, 0.0, "broker does not support it"),
        "TestChain/range": Result(Status.FAILED, 1.5, "saw double offset"),
        "TestChain": Result(Status.FAILED, 0.0, "did not end: panic: test timed out after 3s "),
        "TestHang": Result(Status.FAILED, 0.0, "did not end: panic: test timed out after 3s "),
    }


def test_no_output_is_no_result():
    assert franz_go.parse("PASS\n") == {}


def test_a_listed_failure_counts_only_while_the_api_is_not_advertised():
    listed = Skip("TestX", "needs it", ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, may_fail=True)
    assert [v.label for v in judge({"TestX": PASSED}, {"TestX": FAILED}, [listed], {})] == ["listed"]
    assert [v.label for v in judge({"TestX": PASSED}, {"TestX": FAILED}, [listed], OFFERED)] == ["WORSE"]


JUNIT = """<testsuites><testsuite>
<testcase classname="test.integration.test_a" name="test_one" time="0.5"/>
<testcase name="test_two[gzip]" time="1"><failure message="assert 1 == 2&#10;more">trace</failure></testcase>
<testcase name="test_three" time="0"><error message="no fixture">trace</error></testcase>
<testcase name="test_four" time="0"><skipped message="too old"/></testcase>
</testsuite></testsuites>"""


def test_a_junit_report_is_read():
    assert kafka_python.parse(JUNIT) == {
        "test_one": Result(Status.PASSED, 0.5),
        "test_two[gzip]": Result(Status.FAILED, 1.0, "assert 1 == 2"),
        "test_three": Result(Status.FAILED, 0.0, "no fixture"),
        "test_four": Result(Status.SKIPPED, 0.0, "too old"),
    }
