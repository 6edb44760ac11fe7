"""The voters of a cluster on one machine: those with which it began, at the same addresses."""

import shutil
from pathlib import Path

import pytest

from odradek.gateway.supervision.layout import VotersError, addresses_of, plan, properties_of, voters_of


def started(data: Path, brokers: int, host: str = "::1", port: int = 100) -> None:
    """Leaves the directory as `serve --brokers` does once its nodes have stored something."""
    for node in plan(data, host, *addresses_of(brokers, data, host, port)):
        (node.directory / "__cluster_metadata-0.AAAAAAAAAAAAAAAAAAAAAQ").mkdir(parents=True, exist_ok=True)
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
    shutil.rmtree(tmp_path / "node-1")
    assert voters_of(1, tmp_path) == 1
    assert addresses_of(1, tmp_path, "::1", 200) == ([200], [("::1", 201)])


def test_controllers_keep_their_addresses_and_clients_get_others(tmp_path: Path) -> None:
    """With `kraft.version` 1 the metadata log has the addresses, so nodes would not find controllers at others."""
    new = [("::1", 103), ("::1", 104), ("::1", 105)]
    assert addresses_of(3, tmp_path, "::1", 100) == ([100, 101, 102], new)
    started(tmp_path, 3)
    assert addresses_of(3, tmp_path, "::1", 100) == ([100, 101, 102], new)
    assert addresses_of(5, tmp_path, "::1", 100) == ([100, 101, 102, 106, 107], new)
    assert addresses_of(3, tmp_path, "127.0.0.1", 200) == ([200, 201, 202], new)
    first, *_ = plan(tmp_path, "127.0.0.1", *addresses_of(3, tmp_path, "127.0.0.1", 200))
    assert first.settings["listeners"] == "PLAINTEXT://127.0.0.1:200,CONTROLLER://[::1]:103"
    assert first.settings["controller.quorum.voters"] == "1@[::1]:103,2@[::1]:104,3@[::1]:105"
    with pytest.raises(VotersError, match="port 104 is that of controller 2"):
        addresses_of(3, tmp_path, "::1", 104)


@pytest.mark.parametrize("content", ["", "# generated\nnode.id=1\n", "controller.quorum.voters=2@a:1\n", None])
def test_a_cluster_whose_voters_are_not_known_is_refused(tmp_path: Path, content: str | None) -> None:
    """An emptied file of node 1 must not change the voters from one to three."""
    started(tmp_path, 1)
    if content is None:
        properties_of(tmp_path, 1).unlink()
    else:
        properties_of(tmp_path, 1).write_text(content)
    with pytest.raises(VotersError, match=r"node-1\.properties does not name the controllers .* restore its line"):
        addresses_of(3, tmp_path, "::1", 100)
    assert not properties_of(tmp_path, 3).exists()


def test_a_file_that_cannot_be_written_keeps_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started(tmp_path, 1)
    before = properties_of(tmp_path, 1).read_text()

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        started(tmp_path, 3, "127.0.0.1", 200)
    assert properties_of(tmp_path, 1).read_text() == before
