"""The results of a published suite on each broker, and the verdicts from them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from odradek.wire.api_keys import ApiKey


class Status(Enum):
    """The end of one test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    MISSING = "did not run"


@dataclass(frozen=True, slots=True)
class Result:
    """One test on one broker; `said` is its reason for a skip or a failure."""

    status: Status
    seconds: float = 0.0
    said: str = ""


NOT_RUN = Result(Status.MISSING)


@dataclass(frozen=True, slots=True)
class Skip:
    """Tests (a regular expression) that skip themselves on Odradek and run on Kafka, while an API is not offered.

    With `api` None the skip is permanent. Once the API is advertised, the tests must pass. `may_fail` is for suites
    that do not check first.
    """

    pattern: str
    reason: str
    api: ApiKey | None = None
    version: int = 0
    may_fail: bool = False

    def covers(self, test: str, advertised: Mapping[ApiKey, tuple[int, int]]) -> bool:
        """True if the test may be skipped now."""
        offered = self.api is not None and advertised.get(self.api, (0, -1))[1] >= self.version
        return not offered and re.fullmatch(self.pattern, test) is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row of the table."""

    test: str
    kafka: Result
    odradek: Result
    label: str
    reason: str = ""

    @property
    def is_good(self) -> bool:
        """False if the result is worse than on Kafka, or the cause of failure another, without a listed reason."""
        return self.label != "WORSE"


def judge(
    kafka: Mapping[str, Result],
    odradek: Mapping[str, Result],
    skips: Sequence[Skip],
    advertised: Mapping[ApiKey, tuple[int, int]],
) -> list[Verdict]:
    """Every test of either side, in the order of names."""
    names = sorted({*kafka, *odradek})
    return [_judged(n, kafka.get(n, NOT_RUN), odradek.get(n, NOT_RUN), skips, advertised) for n in names]


def _judged(
    test: str,
    kafka: Result,
    odradek: Result,
    skips: Sequence[Skip],
    advertised: Mapping[ApiKey, tuple[int, int]],
) -> Verdict:
    if kafka.status is odradek.status is Status.PASSED:
        return Verdict(test, kafka, odradek, "same")
    if kafka.status is odradek.status and cause(kafka.said) == cause(odradek.said):
        return Verdict(test, kafka, odradek, "same", odradek.said)
    if kafka.status is odradek.status is Status.FAILED:
        return Verdict(test, kafka, odradek, "WORSE", f"on Kafka: {kafka.said}; on Odradek: {odradek.said}")
    if odradek.status is Status.PASSED:
        return Verdict(test, kafka, odradek, "better", kafka.said)
    listed = next((skip for skip in skips if skip.covers(test, advertised)), None)
    if listed is not None and odradek.status is not Status.FAILED:
        return Verdict(test, kafka, odradek, "skips itself", listed.reason)
    if listed is not None and listed.may_fail:
        return Verdict(test, kafka, odradek, "listed", listed.reason)
    if kafka.status is not Status.PASSED and odradek.status is not Status.FAILED:
        return Verdict(test, kafka, odradek, "not on Kafka either", kafka.said)
    return Verdict(test, kafka, odradek, "WORSE", odradek.said)


_RAISED = re.compile(r"(?P<type>[\w.]+(?:Error|Exception))\b(?:: \[Error (?P<code>\d+)\])?")
_VARYING = re.compile(r"[0-9a-f-]{6,}|\d+")


def cause(said: str) -> tuple[str, ...]:
    """The part that must be equal for two failures to be the same.

    That is the exception and Kafka's error code, since messages differ between brokers; without an exception, the text
    without numbers and ids.
    """
    raised = _RAISED.match(said)
    if raised is not None:
        return raised["type"], raised["code"] or ""
    return (_VARYING.sub("#", said),)


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """Markdown: test by test."""
    lines = ["| test | Kafka | Odradek | | why |", "|---|---|---|---|---|"]
    for v in verdicts:
        why = " ".join(v.reason.split()).replace("|", "\\|")[:160]
        lines.append(f"| {v.test} | {v.kafka.status.value} | {v.odradek.status.value} | {v.label} | {why} |")
    return lines


def summary(verdicts: Sequence[Verdict]) -> str:
    """The counts of the verdicts, in one line."""
    labels = [v.label for v in verdicts]
    return ", ".join(f"{labels.count(label)} {label}" for label in sorted(set(labels)))
