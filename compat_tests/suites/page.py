"""The page with every suite's table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compat_tests.suites.results import Result, Skip, Verdict, summary, table

PAGE = "docs/client_suites.md"

_INTRO = """\
# Client libraries' own tests

Integration tests that client libraries publish, run unchanged against a real Apache Kafka 4.3.1 and against Odradek,
both with the settings of `compat_tests`. Written by `python -m compat_tests.suites --write`.
`compat_tests/test_client_suites.py` runs them, with fewer records, in `make test`, and fails when a test passes on
Kafka and not here.

*same*: the same end on both, and where that is a failure, for the same cause. *skips itself*: the test asks what the
broker offers, and leaves; *listed*: it does not ask, and fails for the reason given. Once Odradek advertises what such
a test needs, it must pass. *better*: it fails on this Kafka and passes here.

On both sides kafka-python runs with one race of its own mended: it forgets topics that are set while a metadata
request is on its way (`compat_tests/suites/kafka_python_metadata.py`).
"""


@dataclass(frozen=True)
class Suite:
    """A published suite: `run(bootstrap)` gives the result of every test."""

    name: str
    title: str
    skips: Sequence[Skip]
    elsewhere: Mapping[str, str]
    run: Callable[[str], dict[str, Result]]


def page(judged: Sequence[tuple[Suite, Sequence[Verdict]]]) -> str:
    """The whole page in Markdown."""
    lines = [_INTRO]
    for suite, verdicts in judged:
        lines += [f"## {suite.title}", "", f"{len(verdicts)} tests and subtests: {summary(verdicts)}.", ""]
        lines += [*table(verdicts), "", "Not run:", ""]
        lines += [*(f"- {what}: {why}" for what, why in suite.elsewhere.items()), ""]
    return "\n".join(lines)
