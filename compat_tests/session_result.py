"""The comparisons of a session: of one process, or combined from the processes of a session that runs in several."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from compat_tests import api_table, matrix
from compat_tests.comparison import Case, Comparison, Outcome
from compat_tests.processes import ROOT
from odradek.wire.api_keys import ApiKey

SLOWEST = 8


@dataclass
class SessionResult:
    """`served` has the real Kafka and the broker that were compared; empty until one was started."""

    served: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    driven: set[tuple[ApiKey, int]] = field(default_factory=set[tuple[ApiKey, int]])

    def take(self, both: Comparison) -> None:
        """Adds the comparisons of one process."""
        kafka = both.kafka.provider if both.kafka else "none (ODRADEK_NO_JAVA=1)"
        self.served.append((kafka, both.odradek.provider))
        self.outcomes += both.outcomes
        self.driven |= both.driven

    def as_text(self) -> str:
        """Serializes it for another process, which calls `take_text`."""
        outcomes = [
            [each.case.client, each.case.row, each.case.name, each.status, each.detail, each.seconds]
            for each in self.outcomes
        ]
        return json.dumps([self.served, outcomes, [(int(key), version) for key, version in self.driven]])

    def take_text(self, text: str) -> None:
        """Adds the comparisons of another process."""
        served, outcomes, driven = json.loads(text)
        self.served += [(kafka, odradek) for kafka, odradek in served]
        self.outcomes += [_outcome(*each) for each in outcomes]
        self.driven |= {(ApiKey(key), version) for key, version in driven}

    def lines(self) -> list[str]:
        """Lines for the terminal: the brokers, the matrix, and the slowest cases."""
        served = [
            f"real Kafka served by: {kafka}; compared with: {odradek}" for kafka, odradek in sorted(set(self.served))
        ]
        longest = sorted(self.outcomes, key=lambda each: -sum(each.seconds.values()))[:SLOWEST]
        slow = [
            f"slow: {each.case.client}/{each.case.name}: "
            + ", ".join(f"{side} {seconds:.1f} s" for side, seconds in each.seconds.items())
            for each in longest
        ]
        return [*served, *matrix.terminal_lines(self.outcomes), *slow]

    def write_matrix(self) -> str:
        """Writes the page of the matrix; returns its path."""
        page = ROOT / "docs" / "compat_matrix.md"
        kafka, odradek = self.served[0]
        page.write_text(matrix.markdown(self.outcomes, kafka, odradek))
        return str(page.relative_to(ROOT))

    def write_apis(self) -> Sequence[str]:
        """Writes the note and the page of the APIs; returns their paths."""
        api_table.write_driven(self.driven)
        api_table.write_page()
        return [api_table.DRIVEN, str(api_table.PAGE)]


def _outcome(client: str, row: str, name: str, status: str, detail: str, seconds: dict[str, float]) -> Outcome:
    return Outcome(Case(client, row, name, _ran_elsewhere, ""), status, detail, seconds)


def _ran_elsewhere(_side: Any) -> NoReturn:
    raise AssertionError("this case ran in another process")
