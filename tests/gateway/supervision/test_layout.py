"""The voters of a cluster on one machine: those with which it began."""

from pathlib import Path

import pytest

from odradek.gateway.supervision.layout import VotersError, plan, properties_of, voters_of


def started(data: Path, brokers: int) -> None:
    """Leaves the directory as `serve --brokers` does once its nodes have stored something."""
    voters = voters_of(brokers, data)
    for node in plan(data, "::1", list(range(1, brokers + 1)), list(range(100, 100 + voters))):
        node.directory.mkdir(exist_ok=True)
        node.write(properties_of(data, node.node_id))


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (5, 3)])
def test_a_new_cluster_has_one_voter_or_three(tmp_path: Path, brokers: int, voters: int) -> None:
    assert voters_of(brokers, tmp_path) == voters


def test_more_brokers_change_no_voters(tmp_path: Path) -> None:
    """Two new voters would be a majority with empty logs, and begin another cluster."""
    started(tmp_path, 1)
    assert voters_of(3, tmp_path) == 1
    started(tmp_path, 3)
    assert voters_of(5, tmp_path) == 1


def test_there_are_no_fewer_brokers_than_voters(tmp_path: Path) -> None:
    started(tmp_path, 3)
    assert voters_of(4, tmp_path) == 3
    with pytest.raises(VotersError, match="the nodes 1 to 3: use --brokers 3 or more"):
        voters_of(2, tmp_path)


def test_a_start_that_has_stored_nothing_binds_to_nothing(tmp_path: Path) -> None:
    started(tmp_path, 3)
    (tmp_path / "node-1").rmdir()
    assert voters_of(1, tmp_path) == 1
