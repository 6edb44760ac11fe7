"""When a client counts as served again after a fault, and the table of the clients' waiting times."""

import pytest

from compat_tests.history.recorder import Recorder
from compat_tests.history.served import PROPERTY, Served, ServedTimes, Watch, reported, table
from odradek.gateway.testing.history.operations import Outcome, Read, Sent

KEYS = [("topic", 0), ("topic", 1)]


def watching(recorder: Recorder, *processes: str) -> Watch:
    watch = Watch(processes, KEYS)
    recorder.watch(watch)
    return watch


def send(recorder: Recorder, key: tuple[str, int], began: int, outcome: Outcome = Outcome.OK) -> None:
    recorder.note("producer", outcome, began, [Sent(key, f"value {began}")])


def test_a_producer_is_served_when_it_has_written_to_every_partition_since():
    recorder = Recorder()
    watch = watching(recorder, "producer")
    send(recorder, KEYS[0], recorder.now())
    assert watch.wait("producer", 0) is None
    assert watch.missing("producer") == [KEYS[1]]
    send(recorder, KEYS[1], recorder.now())
    assert watch.wait("producer", 0) is not None
    assert watch.missing("producer") == []


def test_what_began_before_and_what_failed_does_not_count():
    recorder = Recorder()
    before = recorder.now()
    watch = watching(recorder, "producer")
    send(recorder, KEYS[0], before)
    send(recorder, KEYS[1], recorder.now(), Outcome.UNKNOWN)
    assert watch.missing("producer") == KEYS


def test_a_consumer_is_served_by_records_that_were_sent_since_and_not_by_a_backlog():
    recorder = Recorder()
    recorder.intends("producer", recorder.now(), [Sent(KEYS[0], "old")])
    watch = watching(recorder, "consumer")
    recorder.intends("producer", recorder.now(), [Sent(KEYS[1], "new")])
    recorder.note("consumer", Outcome.OK, recorder.now(), [Read(KEYS[0], 0, "old"), Read(KEYS[1], 0, "new")])
    assert watch.missing("consumer") == [KEYS[0]]


def test_a_watch_that_has_ended_sees_nothing_more():
    recorder = Recorder()
    watch = watching(recorder, "producer")
    recorder.unwatch(watch)
    send(recorder, KEYS[0], recorder.now())
    assert watch.missing("producer") == KEYS


def test_a_pause_lasts_until_the_last_partition_is_served():
    recorder = Recorder()
    watch = watching(recorder, "producer")
    send(recorder, KEYS[0], recorder.now())
    first = watch.pause_s("producer")
    assert watch.pause_s("producer") >= first > 0


def test_measurements_pass_through_a_report_once():
    class Report:
        def __init__(self) -> None:
            self.user_properties: list[tuple[str, object]] = [("other", "1")]

    report = Report()
    times = ServedTimes("three", lambda name, value: report.user_properties.append((name, value)))
    times.add("kill", "begin", "java", 1.5, 2.0)
    assert [name for name, _ in report.user_properties] == ["other", PROPERTY]
    assert reported([report, report, object()]) == [Served("three", "kill", "begin", "java", 1.5, 2.0)]


@pytest.mark.parametrize(
    ("measured", "cell"),
    [([(1.0, 1.0)], "1.0"), ([(1.0, 1.5), (0.5, 3.0)], "1.0 (3.0)"), ([(None, 9.0)], "never")],
    ids=["one", "the largest, and a pause that came later", "none within the bound"],
)
def test_the_table_has_a_line_for_each_fault_and_moment(measured: list[tuple[float | None, float]], cell: str):
    rows = [Served("three", "kill", "begin", "java", seconds, pause) for seconds, pause in measured]
    assert table([*rows, Served("three", "kill", "end", "rd", 0.1, 0.1)]) == [
        "| cluster | fault | since | rd | java |",
        "|---|---|---|---|---|",
        f"| three | kill | begin |  | {cell} |",
        "| three | kill | end | 0.1 |  |",
    ]
