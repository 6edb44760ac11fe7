"""Runs published suites on a real Kafka and on Odradek, one after the other, and prints or writes the tables.

``--address`` runs them on one broker that is already running, and prints its results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from compat_tests.brokers import Broker, Odradek
from compat_tests.processes import ROOT
from compat_tests.real_kafka import JvmKafka, start_real_kafka
from compat_tests.suites import franz_go, kafka_python
from compat_tests.suites.page import PAGE, Suite, page
from compat_tests.suites.results import Result, Status, judge
from odradek.wire.api_keys import ADVERTISED


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns exit code 1 if a test passes on Kafka and not on Odradek without a listed reason."""
    options = _options(arguments)
    chosen = [suite for suite in suites(options) if not options.suite or suite.name in options.suite]
    if options.address:
        return _one_side(chosen, options.address)
    judged = []
    for suite in chosen:
        kafka, odradek = _both(suite, start_real_kafka() if options.containers else JvmKafka())
        judged.append((suite, judge(kafka, odradek, suite.skips, ADVERTISED)))
    text = page(judged)
    if options.write:
        (ROOT / PAGE).write_text(text)
    print(text)
    return 0 if all(v.is_good for _, verdicts in judged for v in verdicts) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m compat_tests.suites", description=__doc__)
    parser.add_argument("suite", nargs="*", help="which suites (default: all)")
    parser.add_argument("--address", help="only this broker, which runs already: print what each test said")
    parser.add_argument("--test", action="append", default=[], help="only these tests; may be repeated")
    parser.add_argument("--records", type=int, default=50_000, help="records of each of franz-go's ETL chains")
    parser.add_argument("--chaos", action="store_true", help="franz-go's mode in which connections die")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for each suite and broker")
    parser.add_argument("--containers", action="store_true", help="real Kafka as in the tests, not on the local JVM")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE}")
    return parser.parse_args(arguments)


def suites(options: argparse.Namespace) -> list[Suite]:
    """All suites, with tests and limits from the options."""
    tests = options.test or [*franz_go.ETL, *franz_go.OTHERS]

    def run_franz_go(bootstrap: str) -> dict[str, Result]:
        limits = {"records": options.records, "timeout_s": options.timeout, "chaos": options.chaos}
        return franz_go.run(bootstrap, tests, **limits)

    def run_kafka_python(bootstrap: str) -> dict[str, Result]:
        return kafka_python.run(bootstrap, tests=options.test, timeout_s=options.timeout)

    elsewhere = {**kafka_python.ELSEWHERE, **kafka_python.AIOKAFKA}
    return [
        Suite("franz-go", franz_go.TITLE, franz_go.SKIPS, franz_go.ELSEWHERE, run_franz_go),
        Suite("kafka-python", kafka_python.TITLE, kafka_python.SKIPS, elsewhere, run_kafka_python),
    ]


def _both(suite: Suite, kafka: Broker) -> tuple[dict[str, Result], dict[str, Result]]:
    try:
        theirs = suite.run(kafka.bootstrap)
    finally:
        kafka.stop()
    odradek = Odradek()
    try:
        return theirs, suite.run(odradek.bootstrap)
    finally:
        odradek.stop()


def _one_side(chosen: Sequence[Suite], address: str) -> int:
    failed = False
    for suite in chosen:
        for test, result in sorted(suite.run(address).items()):
            failed |= result.status is Status.FAILED
            print(f"{result.status.value:8} {result.seconds:7.2f} s  {test}  {result.said}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
