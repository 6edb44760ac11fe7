"""Runs every script of transactions."""

from pathlib import Path

import pytest
from shard_scripts import check_script
from transaction_script import Script

from odradek.coordinator.transactions import expiry

EXPIRY = ("transactional_id_expiration_ms", "transaction_remove_expired_transaction_cleanup_interval_ms")
SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path, request):
    check_script(path, Script(), request)


def test_many_ids_time_out_and_expire_in_parts(monkeypatch):
    monkeypatch.setattr(expiry, "AT_ONCE", 2)
    script = Script()
    script.do_config((), dict.fromkeys(EXPIRY, 10_000))
    for number in range(5):
        script.do_init([f"p{number}"], {"id": f"id{number}", "timeout": "5000"})
        script.do_add([f"p{number}", "data:0"], {})
    aborted = [len(records) for records, _ in script.world.advance(5_000)]
    assert aborted == [2, 2, 1]
    for _ in script.world.finish():
        pass
    removed = [len(records) for records, _ in script.world.advance(20_000)]
    assert [count for count in removed if count] == [2, 2, 1]
    assert not script.world.shard.table.transactions


def test_there_are_scripts():
    assert len(SCRIPTS) >= 6


def test_a_time_out_that_cannot_be_written_is_decided_again_later():
    script = Script()
    for name in "ab":
        script.run([f"init {name} id={name}", f"add {name} data:0"])
    world = script.world
    world.now_ms = world.shard.next_deadline_ms()
    first, second, _ = world.shard.on_time(world.now_ms)
    assert (first.about, second.about) == ("a", "b")
    world.shard.on_refused("a", world.now_ms)
    world.shard.replay(*second.records, 0, 0, world.now_ms)
    retried_ms = world.shard.next_deadline_ms()
    assert retried_ms == world.now_ms + expiry.RETRY_MS
    assert [outcome.about for outcome in world.shard.on_time(retried_ms) if outcome.records] == ["a"]
