"""What a session has compared: of one process, or put together from the processes of a session that runs in several."""

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
    """`served` says which real Kafka was compared with which broker; empty until one was started."""

    served: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    driven: set[tuple[ApiKey, int]] = field(default_factory=set[tuple[ApiKey, int]])

    def take(self, both: Comparison) -> None:
        """Add what one process has compared."""
        kafka = both.kafka.provider if both.kafka else "none (ODRADEK_NO_JAVA=1)"
        self.served.append((kafka, both.odradek.provider))
        self.outcomes += both.outcomes
        self.driven |= both.driven

    def as_text(self) -> str:
        """For another process, which `take_text`s it."""
        outcomes = [
            [each.case.client, each.case.row, each.case.name, each.status, each.detail, each.seconds]
            for each in self.outcomes
        ]
        return json.dumps([self.served, outcomes, [(int(key), version) for key, version in self.driven]])

    def take_text(self, text: str) -> None:
        """Add what another process has compared."""
        served, outcomes, driven = json.loads(text)
        self.served += [(kafka, odradek) for kafka, odradek in served]
        self.outcomes += [_outcome(*each) for each in outcomes]
        self.driven |= {(ApiKey(key), version) for key, version in driven}

    def lines(self) -> list[str]:
        """For the terminal: who served, the matrix, and the cases that took longest."""
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
        """Write the page of the matrix; its path."""
        page = ROOT / "docs" / "compat_matrix.md"
        kafka, odradek = self.served[0]
        page.write_text(matrix.markdown(self.outcomes, kafka, odradek))
        return str(page.relative_to(ROOT))

    def write_apis(self) -> Sequence[str]:
        """Write the note and the page of the APIs; their paths."""
        api_table.write_driven(self.driven)
        api_table.write_page()
        return [api_table.DRIVEN, str(api_table.PAGE)]


def _outcome(client: str, row: str, name: str, status: str, detail: str, seconds: dict[str, float]) -> Outcome:
    return Outcome(Case(client, row, name, _ran_elsewhere, ""), status, detail, seconds)


def _ran_elsewhere(_side: Any) -> NoReturn:
    raise AssertionError("this case ran in another process")
