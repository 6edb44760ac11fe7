"""The matrix of clients and cases: for the terminal and for ``docs/compat_matrix.md``."""

from __future__ import annotations

from collections.abc import Iterable

from compat_tests.catalogue import CASES, CLIENTS, NOT_APPLICABLE
from compat_tests.comparison import Outcome

_RANK = {"same": 0, "different": 1, "not compared": 2, "not run": 3, "failed": 4}


def cell(outcomes: Iterable[Outcome], client: str, row: str) -> tuple[str, list[str]]:
    """The worst status of a pair, and its notes."""
    mine = [o for o in outcomes if o.case.client == client and o.case.row == row]
    if mine:
        status = max((o.status for o in mine), key=_RANK.__getitem__)
        return status, sorted({f"{o.case.name}: {o.detail}" for o in mine if o.detail})
    reason = NOT_APPLICABLE.get((client, row))
    return ("n/a", [reason]) if reason else ("not selected", [])


def terminal_lines(outcomes: list[Outcome]) -> list[str]:
    """The table, then a note for each pair that is neither equal nor deliberately omitted."""
    width = max(map(len, CASES)) + 2
    columns = [max(len(client), 12) + 2 for client in CLIENTS]
    lines = ["".join(["case".ljust(width), *(c.ljust(w) for c, w in zip(CLIENTS, columns, strict=True))])]
    for row in CASES:
        states = [cell(outcomes, client, row)[0] for client in CLIENTS]
        lines.append("".join([row.ljust(width), *(s.ljust(w) for s, w in zip(states, columns, strict=True))]))
    return [*lines, *_notes(outcomes)]


def _notes(outcomes: list[Outcome]) -> list[str]:
    found = []
    for client in CLIENTS:
        for row in CASES:
            status, notes = cell(outcomes, client, row)
            found += [f"{status}: {client} / {note}" for note in notes if status not in {"same", "n/a"}]
    return found


def markdown(outcomes: list[Outcome], kafka: str, odradek: str) -> str:
    """The page ``docs/compat_matrix.md``."""
    lines = [
        "# Compatibility matrix",
        "",
        "Written by `pytest compat_tests --write-matrix`: each script ran on both brokers, and what the client saw was",
        "compared. *same*: nothing differed. *different*: see the reasons below. *n/a*: the pair makes no sense.",
        "",
        f"- Apache Kafka: {kafka}",
        f"- Odradek: {odradek}",
        "",
        "| case | " + " | ".join(CLIENTS) + " |",
        "|---" * (len(CLIENTS) + 1) + "|",
    ]
    lines += [f"| {row} | " + " | ".join(cell(outcomes, c, row)[0] for c in CLIENTS) + " |" for row in CASES]
    lines += ["", "## The cases", "", *(f"- **{row}**: {what}" for row, what in CASES.items())]
    lines += ["", "## Scripts that ran", ""]
    for client in CLIENTS:
        ran = [o for o in sorted(outcomes, key=lambda o: o.case.name) if o.case.client == client]
        lines.append(f"- {client}: " + (", ".join(f"{o.case.name} ({o.status})" for o in ran) or "none"))
    lines += ["", "## Differences and their reasons", "", *(_bullets(_notes(outcomes)) or ["None."])]
    reasons = [f"{client} / {row}: {why}" for (client, row), why in sorted(NOT_APPLICABLE.items())]
    return "\n".join([*lines, "", "## Not applicable", "", *_bullets(reasons), ""])


def _bullets(texts: list[str]) -> list[str]:
    return [f"- {text}" for text in texts]
