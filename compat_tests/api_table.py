"""The table of APIs in docs/apis.md: versions that are advertised, versions of Kafka, and versions compared with it.

Our own APIs have a separate table, with their tests. `pytest compat_tests/test_every_version.py --write-apis` (and
`--write-matrix`) records the compared versions in `docs/driven_apis.json`, and writes the table; `python -m
compat_tests.api_table` writes the table from the record.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import PurePath

from compat_tests.processes import ROOT
from odradek.wire.api_keys import ADVERTISED, KAFKA_VERSIONS, OWN_VERSIONS, ApiKey

DRIVEN = "docs/driven_apis.json"
PAGE = "docs/apis.md"
BEGIN = "<!-- APIs: written by `python -m compat_tests.api_table` -->"
END = "<!-- APIs: end -->"
REFUSED = {(ApiKey.PRODUCE, version) for version in range(3)}
"""Advertised and refused, as in Kafka (KAFKA-18659)."""
BROKERS_ONLY = frozenset(
    {
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.UNREGISTER_CONTROLLER,
    }
)
"""Requests between brokers and controllers."""
DRIVEN_BY = {ApiKey.IMPORT_BATCHES: "tests/gateway/test_import_batches.py"}
"""The tests of the APIs that Kafka does not have."""

Driven = Mapping[ApiKey, list[int]]


def write_driven(driven: Iterable[tuple[ApiKey, int]]) -> None:
    """Records the versions that a run has compared; those of earlier runs are kept if they are still advertised."""
    versions: dict[str, set[int]] = {key.name: set(found) for key, found in read_driven().items()}
    for key, version in driven:
        versions.setdefault(key.name, set()).add(version)
    kept = {key: sorted(v for v in versions.get(key.name, ()) if _is_served(key, v)) for key in sorted(_kafkas())}
    (ROOT / DRIVEN).write_text(_one_line_each({key.name: found for key, found in kept.items() if found}))


def _one_line_each(versions: Mapping[str, list[int]]) -> str:
    return "{\n" + ",\n".join(f'  "{name}": {json.dumps(found)}' for name, found in versions.items()) + "\n}\n"


def read_driven() -> Driven:
    """The compared versions, by API."""
    path = ROOT / DRIVEN
    noted = json.loads(path.read_text()) if path.exists() else {}
    return {ApiKey[name]: versions for name, versions in noted.items()}


def _kafkas() -> dict[ApiKey, tuple[int, int]]:
    """The advertised versions of Kafka's APIs."""
    return {key: versions for key, versions in ADVERTISED.items() if key not in OWN_VERSIONS}


def _is_served(key: ApiKey, version: int) -> bool:
    first, last = ADVERTISED.get(key, (0, -1))
    return first <= version <= last and (key, version) not in REFUSED


def not_driven(driven: Driven) -> list[tuple[str, int]]:
    """Versions that are advertised and served, but have never been compared."""
    return [
        (key.name, version)
        for key, (first, last) in _kafkas().items()
        for version in range(first, last + 1)
        if _is_served(key, version) and version not in driven.get(key, ())
    ]


def section(driven: Driven) -> str:
    """The part of the page between the two marks, including them."""
    advertised = sorted(_kafkas())
    versions = sum(last - first + 1 for first, last in _kafkas().values())
    compared = sum(len(found) for found in driven.values())
    absent = [name_of(key) for key in KAFKA_VERSIONS if key not in ADVERTISED and key not in BROKERS_ONLY]
    lines = [
        BEGIN,
        f"{len(advertised)} of Kafka's APIs in {versions} versions are advertised; {compared} of the versions were sent"
        " to Odradek and to a real Kafka 4.3.1 by [one test](../compat_tests/test_every_version.py), and the answers"
        " compared.",
        "",
        "| key | API | Odradek | Kafka 4.4 | compared |",
        "|---|---|---|---|---|",
        *(_row(key, driven.get(key, [])) for key in advertised),
        "",
        *_own_section(),
        f"Of what Kafka 4.4 offers to clients, not there yet: {', '.join(absent) or 'nothing'}.",
        END,
    ]
    return "\n".join(lines)


def _own_section() -> list[str]:
    rows = [
        f"| {int(key)} | {name_of(key)} | {_range(*ADVERTISED[key])} | [{PurePath(test).name}](../{test}) |"
        for key, test in DRIVEN_BY.items()
    ]
    intro = "Odradek's own, which clients of Kafka ignore:"
    return [intro, "", "| key | API | versions | driven by |", "|---|---|---|---|", *rows, ""]


def _row(key: ApiKey, compared: list[int]) -> str:
    theirs = KAFKA_VERSIONS[key]
    ours = _range(*ADVERTISED[key])
    return f"| {int(key)} | {name_of(key)} | {ours} | {_range(theirs.first, theirs.last)} | {ranges(compared)} |"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def ranges(versions: list[int]) -> str:
    """Versions as ranges: [0, 1, 2, 5] is "0-2, 5"."""
    runs: list[list[int]] = []
    for version in sorted(versions):
        if runs and version == runs[-1][1] + 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return ", ".join(_range(*run) for run in runs) or "none"


def name_of(key: ApiKey) -> str:
    """An API's name as Kafka writes it."""
    return key.name.title().replace("_", "")


def in_page(page: str) -> str:
    """The section of a page. Raises ValueError if the marks are missing."""
    start, end = page.index(BEGIN), page.index(END)
    return page[start : end + len(END)]


def write_page() -> None:
    """Writes the section to its page."""
    path = ROOT / PAGE
    page = path.read_text()
    path.write_text(page.replace(in_page(page), section(read_driven())))


if __name__ == "__main__":
    write_page()
    missing = not_driven(read_driven())
    print(f"advertised and not compared yet: {missing}" if missing else f"{PAGE} is up to date")
    sys.exit(bool(missing))
