"""A conversion to a classic group whose records are too large to be written."""

from consumer_script import ConsumerScript

SESSION_MS = 45_000


def mixed_group():
    """A consumer group g with one member of each protocol, whose sessions end at the same time."""
    script = ConsumerScript()
    joins = "join a topics=t session=60000"
    script.run(["topics t=2", "enter n topics=t", joins, joins])
    return script


def refuse_timers(script):
    """Lets the time-out of n be decided, as if its records were too large; returns what it was about."""
    world = script.world
    world.now_ms = world.shard.next_deadline_ms()
    decided = [outcome.about for outcome in world.shard.on_time(world.now_ms) if outcome.records]
    for about in decided:
        world.shard.on_refused(about, world.now_ms)
    return decided


def test_the_group_stays_as_it_was_and_is_decided_about_again_later():
    script = mixed_group()
    before = script.run(["members g"])
    assert refuse_timers(script) == ["g"]
    assert script.world.now_ms == SESSION_MS
    assert script.run(["members g"]) == before
    assert not script.world.shard.table.classic.groups
    assert script.run([f"advance {SESSION_MS - 1}"]) == ["nothing"]
    assert "write group g GroupMetadataValue" in script.run(["advance 1"])[-1]


def test_a_refused_request_leaves_the_group_as_it_was():
    script = mixed_group()
    world, before = script.world, script.run(["members g"])
    request = script.leave_request("n")
    outcome = world.shard.consumer_group_heartbeat(request, world.caller(1), world.token(), world.now_ms)
    assert outcome.about == "g"
    world.shard.on_refused(outcome.about, world.now_ms)
    assert script.run(["members g"]) == before
    assert not world.shard.table.classic.groups


def test_refused_requests_do_not_keep_a_member_alive_that_sends_none():
    script = ConsumerScript()
    script.run(["topics t=2", "enter n topics=t", "enter m topics=t"])
    shard, due_ms = script.world.shard, script.world.shard.next_deadline_ms()
    for now_ms in range(script.world.now_ms, due_ms, 5000):
        shard.on_refused("g", now_ms)
    assert shard.next_deadline_ms() == due_ms
