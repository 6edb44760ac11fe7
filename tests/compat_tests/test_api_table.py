"""The table of APIs in docs/apis.md matches what is advertised, and every advertised version has been compared."""

import pytest

from compat_tests import api_table
from compat_tests.processes import ROOT
from odradek.wire.api_keys import ADVERTISED, OWN_VERSIONS, ApiKey

HOW = "run: pytest compat_tests/test_every_version.py --write-apis"


def test_every_advertised_version_has_been_compared_with_kafka():
    assert api_table.not_driven(api_table.read_driven()) == [], HOW


def test_each_api_of_our_own_has_a_test_that_drives_it():
    assert set(api_table.DRIVEN_BY) == set(OWN_VERSIONS)
    assert [path for path in api_table.DRIVEN_BY.values() if not (ROOT / path).exists()] == []


def test_the_page_is_up_to_date():
    page = (ROOT / api_table.PAGE).read_text()
    assert api_table.in_page(page) == api_table.section(api_table.read_driven()), HOW


def test_the_table_follows_what_is_advertised(monkeypatch):
    monkeypatch.setitem(ADVERTISED, ApiKey.VOTE, (0, 2))
    lines = api_table.section({ApiKey.VOTE: [0, 2]}).splitlines()
    assert "| 52 | Vote | 0-2 | 0-2 | 0, 2 |" in lines
    assert ("VOTE", 1) in api_table.not_driven({ApiKey.VOTE: [0, 2]})


def test_what_is_refused_need_not_be_compared():
    served = set(range(3, ADVERTISED[ApiKey.PRODUCE][1] + 1))
    missing = {version for name, version in api_table.not_driven({}) if name == "PRODUCE"}
    assert missing == served


@pytest.mark.parametrize(
    ("versions", "text"), [([], "none"), ([4], "4"), ([0, 1, 2], "0-2"), ([5, 0, 1, 3], "0-1, 3, 5")]
)
def test_versions_are_written_as_ranges(versions, text):
    assert api_table.ranges(versions) == text


def test_names_are_kafkas():
    assert api_table.name_of(ApiKey.INIT_PRODUCER_ID) == "InitProducerId"


def test_a_note_keeps_what_earlier_runs_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(api_table, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    api_table.write_driven([(ApiKey.FETCH, 5), (ApiKey.VOTE, 1)])
    api_table.write_driven([(ApiKey.FETCH, 4)])
    assert api_table.read_driven() == {ApiKey.FETCH: [4, 5]}
