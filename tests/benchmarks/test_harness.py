"""The calculating and printing parts of the benchmark harness; parts that load a broker are tested by running them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.brokers import Side
from benchmarks.cases import CPU, KAFKA, ODRADEK, Case, Effort, Figure, Mode, NotMeasuredError
from benchmarks.cold import acknowledged_ms
from benchmarks.cpu_limit import parse_cpu_stat
from benchmarks.java_perf import parse_consumer, parse_producer
from benchmarks.machine import ready_memory
from benchmarks.proc import parse_smaps_rollup, parse_stat
from benchmarks.runner import CaseResult, run_rounds
from benchmarks.stats import Spread, paired_ratios, percentile, rounded, verdict
from benchmarks.table import as_json, footnotes, plain, rows_of

PRODUCER_OUTPUT = """\
40000 records sent, 7999.2 records/sec (7.63 MB/sec), 2012.3 ms avg latency, 3811.0 ms max latency.
100000 records sent, 9871.668312 records/sec (9.41 MB/sec), 1815.71 ms avg latency, 3811.00 ms max latency, \
1800 ms 50th, 3000 ms 95th, 3700 ms 99th, 3800 ms 99.9th.
70000 steady-state records sent, 1.0 records/sec
70000 records sent, 12345.678 records/sec (11.77 MB/sec), 900.00 ms avg latency, 1000.00 ms max latency.
"""
CONSUMER_OUTPUT = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, \
fetch.MB.sec, fetch.nMsg.sec
2026-01-01 10:00:00:000, 2026-01-01 10:00:04:000, 95.3674, 23.8419, 100000, 25000.0000, 3000, 1000, 95.3674, 100000.0000
"""
EFFORT = Effort(rounds=3, duration_s=1, scale=1)
RATE = Figure("rate", "MB/s")


class FakeSide:
    """A side with given figures, one per round; an exception among them is raised."""

    def __init__(self, name, figures):
        self.name = name
        self.figures = iter(figures)
        self.measured = 0

    def next(self):
        self.measured += 1
        figure = next(self.figures)
        if isinstance(figure, Exception):
            raise figure
        return figure


def a_case(**changes):
    def measure(side, mode, effort):
        return side.next()

    settings = {"name": "x", "title": "work", "figures": (RATE,), "measure": measure, "modes": (Mode.FSYNC,)} | changes
    return Case(**settings)


def run(case, ours, theirs, said=None):
    sides = {ODRADEK: FakeSide(ODRADEK, ours), KAFKA: FakeSide(KAFKA, theirs)}
    result = CaseResult(case)
    run_rounds([result], sides, EFFORT, [].append if said is None else said.append, lambda: 0.0)
    return result, sides


def test_ratios_are_paired_by_round_and_leave_out_what_is_not_there():
    assert paired_ratios([2, 3, 4], [1, 2]) == [2, 1.5]
    assert paired_ratios([1, 0, 3], [0, 1, 1]) == [3]


def test_spread_of_nothing_is_none():
    assert Spread.of([]) is None
    assert Spread.of([3, 1, 2]) == Spread(2, 1, 3, 3)


def test_periods_are_read_from_both_versions_of_control_groups():
    assert parse_cpu_stat("nr_periods 12\nnr_throttled 9\nthrottled_time 4711\n") == (12, 9)
    v2 = "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 3\nnr_throttled 1\nthrottled_usec 9\nnr_bursts 0\n"
    assert parse_cpu_stat(v2) == (3, 1)


def test_percentile_is_the_nearest_rank():
    values = list(range(100))
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50, 99, 99)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


@pytest.mark.parametrize(
    ("ratio", "higher_is_better", "expected"),
    [(1.5, True, "better"), (1.5, False, "worse"), (0.5, True, "worse"), (0.5, False, "better"), (1.04, True, "same")],
)
def test_verdict(ratio, higher_is_better, expected):
    assert verdict(ratio, higher_is_better=higher_is_better) == expected


def test_numbers_have_three_digits():
    assert [rounded(value) for value in (0, 0.1234, 9.876, 12.34, 123.4, 12345.6)] == [
        "0", "0.12", "9.88", "12.3", "123", "12,346",
    ]  # fmt: skip


def test_producer_perf_gives_the_steady_state_when_there_is_one():
    assert parse_producer(PRODUCER_OUTPUT) == 12345.678
    assert parse_producer("\n".join(PRODUCER_OUTPUT.splitlines()[:2])) == 9871.668312
    with pytest.raises(NotMeasuredError, match="no summary: boom"):
        parse_producer("boom")


def test_consumer_perf_is_read_by_its_header():
    assert parse_consumer(CONSUMER_OUTPUT) == (100_000, 100_000.0)
    with pytest.raises(NotMeasuredError, match="no figures"):
        parse_consumer(CONSUMER_OUTPUT.splitlines()[0])


def test_stat_of_a_command_with_spaces_and_parentheses():
    assert parse_stat("12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 500 70 0 0 20 0") == 570


def test_smaps_rollup_is_in_kibibytes():
    text = "55-7f ---p 0 [rollup]\nRss:   2000 kB\nPss:   1500 kB\nPss_Dirty: 7 kB\nAnonymous:  1000 kB\n"
    assert parse_smaps_rollup(text) == {"rss": 2.048, "pss": 1.536, "anonymous": 1.024}


def test_cold_start_counts_only_when_the_record_was_acknowledged():
    answer = bytes(4 + 4 + 1 + 1 + 1) + b"cold" + bytes(1 + 4)
    assert acknowledged_ms(f"[0.1, 0.125, 0.05] {(answer + bytes(2)).hex()}\n") == 125
    with pytest.raises(NotMeasuredError, match="not acknowledged"):
        acknowledged_ms(f"[0.1, 0.125, 0.05] {(answer + bytes([0, 3])).hex()}\n")


def test_sides_take_turns_and_the_order_turns_round():
    said = []
    run(a_case(), [{"rate": 1}] * 3, [{"rate": 1}] * 3, said)
    assert [line.rpartition(" ")[2] for line in said] == [ODRADEK, KAFKA, KAFKA, ODRADEK, ODRADEK, KAFKA]


def test_a_side_that_fails_is_omitted_with_the_reason_in_the_table():
    result, sides = run(a_case(), [{"rate": 2}] * 3, [{"rate": 1}, NotMeasuredError("it died")])
    (row,) = rows_of(result)
    assert sides[KAFKA].measured == 2
    assert row.ratio == Spread(2, 2, 2, 1)
    assert footnotes([row]) == ["work fsync: Kafka: not measured: it died"]


def test_no_round_is_begun_that_would_not_end_in_time():
    times = iter([0, 10, 10, 10, 20, 20])  # each round takes 10 s
    side = FakeSide(ODRADEK, [{"rate": 1}] * 3)
    result = CaseResult(a_case(sides=(ODRADEK,)))
    effort = Effort(rounds=3, duration_s=1, scale=1, budget_s=25)
    assert run_rounds([result], {ODRADEK: side}, effort, [].append, lambda: next(times)) == 2
    assert side.measured == 2


def test_brokers_are_renewed_between_rounds():
    said = []
    result = CaseResult(a_case(sides=(ODRADEK,)))
    side = FakeSide(ODRADEK, [{"rate": 1}] * 3)
    run_rounds([result], {ODRADEK: side}, EFFORT, said.append, lambda: 0.0, lambda: said.append("renewed"))
    assert [line.partition(" ")[0] for line in said] == ["work", "renewed", "work", "renewed", "work"]


def test_a_side_that_was_stopped_starts_another_broker(tmp_path):
    started = []

    def start(home, _settings):
        started.append(home)
        return SimpleNamespace(stop=lambda: started.append("stopped"))

    side = Side(ODRADEK, start, tmp_path)
    assert side.broker is side.broker
    side.stop()
    assert side.broker
    first, second, third = started
    assert second == "stopped"
    assert first != third


def test_no_figure_is_made_up_for_a_side_that_never_worked():
    result, _ = run(a_case(), [{"rate": 2}] * 3, [NotMeasuredError("no Kafka jars")])
    (row,) = rows_of(result)
    assert row.theirs is None
    assert row.ratio is None
    assert row.cells()[4:] == ("-", "-", "-", "", "-")
    assert "no Kafka jars" in plain([row])


def test_as_shipped_sets_our_fsync_against_their_page_cache():
    samples = {
        (Mode.PAGE_CACHE, ODRADEK): [{"rate": 40, CPU: 1}],
        (Mode.PAGE_CACHE, KAFKA): [{"rate": 20, CPU: 4}],
        (Mode.FSYNC, ODRADEK): [{"rate": 30, CPU: 2}],
        (Mode.FSYNC, KAFKA): [{"rate": 10, CPU: 4}],
    }
    rows = rows_of(CaseResult(a_case(as_shipped=True), samples))
    assert [(row.mode, row.ratio.median, row.cpu_ratio.median) for row in rows] == [
        ("page cache", 2, 0.25),
        ("fsync", 3, 0.5),
        ("as shipped", 1.5, 0.5),
    ]
    assert as_json(rows)[0]["ratio"]["median"] == 2


def test_the_table_names_work_once_and_aligns():
    case = a_case(figures=(RATE, Figure("p99", "ms", higher_is_better=False)))
    result, _ = run(case, [{"rate": 2, "p99": 5}] * 3, [{"rate": 1, "p99": 1}] * 3)
    lines = plain(rows_of(result)).splitlines()
    assert lines[2].startswith("work  fsync  MB/s")
    assert lines[3].startswith("             ms")
    assert "better" in lines[2]
    assert "worse" in lines[3]


def test_another_version_is_named_in_the_place_of_kafka():
    result, _ = run(a_case(), [{"rate": 2}] * 3, [{"rate": 1}] * 3)
    text = plain(rows_of(result), "earlier")
    assert "Odradek / earlier" in text
    assert "Kafka" not in text


def test_memory_is_made_ready_by_large_writes_of_a_file_that_is_gone_afterwards(tmp_path, monkeypatch):
    sizes, unlink = [], Path.unlink

    def note_size(path):
        sizes.append(path.stat().st_size)
        unlink(path)

    monkeypatch.setattr("benchmarks.machine.READY_BYTES", 10_000_000)
    monkeypatch.setattr(Path, "unlink", note_size)
    ready_memory(tmp_path)
    assert sizes == [12 * 1024 * 1024]
    assert not list(tmp_path.iterdir())
