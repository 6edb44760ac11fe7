"""Calls to another node: pipelined on one connection, reconnected with back-off, one error for each kind of failure."""

import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest
import trio
from peer_server import PeerServer, Received, Script, answer, hang_up, ignore

from odradek.gateway.peers import (
    PeerCallError,
    PeerDisconnectedError,
    PeerLimits,
    PeerRequestError,
    PeerResponseError,
    Peers,
    PeerTimedOutError,
)
from odradek.gateway.peers.peer import Peer
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.wire.errors import UnsupportedVersionError
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.wire.messages.envelope import EnvelopeRequest

REQUEST = BrokerHeartbeatRequest(broker_id=1)
SERVER = ("server", 9)
SOON_MS = 1000


class Stage:
    """A peer on host `here` and its server, in virtual time."""

    def __init__(self, world: World, nursery: trio.Nursery, script: Script, limits: PeerLimits | None) -> None:
        self.world = world
        self.nursery = nursery
        self.env = world.environment("here")
        self.peer = Peer(self.env, nursery, 7, SERVER, "test", limits)
        self.server = self.listen(script)

    def listen(self, script: Script, address: tuple[str, int] = SERVER) -> PeerServer:
        [listener] = self.world.network.listen(*address)
        server = PeerServer(listener, script)
        self.nursery.start_soon(server.run)
        return server

    async def call(self, timeout_ms: int = SOON_MS) -> int:
        response = await self.peer.call(REQUEST, 1, timeout_ms)
        assert isinstance(response, BrokerHeartbeatResponse)
        return response.error_code


@asynccontextmanager
async def staged(script: Script, limits: PeerLimits | None, seed: int) -> AsyncIterator[Stage]:
    world = World(seed)
    async with trio.open_nursery() as nursery:
        yield Stage(world, nursery, script, limits)
        nursery.cancel_scope.cancel()


def on_stage(
    play: Callable[[Stage], Awaitable[None]],
    script: Script = answer,
    limits: PeerLimits | None = None,
    seed: int = 0,
) -> None:
    async def main() -> None:
        async with staged(script, limits, seed) as stage:
            await play(stage)

    run_virtually(seed, main)


def test_calls_share_one_connection_and_each_gets_its_own_response():
    async def play(stage: Stage) -> None:
        stage.world.network.faults.delay_ms = (1, 20)
        stage.world.network.faults.partial = 0.5
        answers: dict[int, int] = {}

        async def ask(number: int) -> None:
            await trio.sleep(number / 1000)
            response = await stage.peer.call(BrokerHeartbeatRequest(broker_id=number), 1, SOON_MS)
            assert isinstance(response, BrokerHeartbeatResponse)
            answers[response.error_code] = number

        async with trio.open_nursery() as nursery:
            for number in range(1, 51):
                nursery.start_soon(ask, number)
        asked = {each.number: each.message for each in stage.server.requests}
        assert answers == {number: each.broker_id for number, each in asked.items()}
        assert sorted(answers.values()) == list(range(1, 51))
        assert len(stage.server.connections) == 1
        assert stage.server.requests[0].header.client_id == "test"

    on_stage(play)


def test_requests_are_pipelined():
    async def play(stage: Stage) -> None:
        async def hold(request: Received) -> None:
            if request.number == 10:
                for each in stage.server.requests:
                    await each.answer()

        stage.server.script = hold
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(stage.call)
        assert [each.number for each in stage.server.requests] == list(range(1, 11))

    on_stage(play)


def test_no_more_requests_are_in_flight_than_allowed():
    async def play(stage: Stage) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(stage.call)
            await trio.sleep(0.1)
            assert len(stage.server.requests) == 2
            for request in stage.server.requests[:2]:
                await request.answer()
            await trio.sleep(0.1)
            assert len(stage.server.requests) == 4
            for request in stage.server.requests[2:4]:
                await request.answer()
            await trio.sleep(0.1)
            await stage.server.requests[4].answer()

    on_stage(play, ignore, PeerLimits(max_in_flight=2))


def test_a_call_that_is_out_of_time_ends_the_connection_and_the_next_makes_another():
    async def play(stage: Stage) -> None:
        started = trio.current_time()
        with pytest.raises(PeerTimedOutError, match="node 7: no response to BrokerHeartbeatRequest within 300 ms"):
            await stage.call(timeout_ms=300)
        assert trio.current_time() - started == pytest.approx(0.3)
        stage.server.script = answer
        assert await stage.call() == 1
        assert len(stage.server.connections) == 2

    on_stage(play, ignore)


def test_a_node_that_hangs_is_logged_once_until_it_answers(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "odradek.gateway.peers")

    async def play(stage: Stage) -> None:
        for _ in range(5):
            with pytest.raises(PeerTimedOutError):
                await stage.call(timeout_ms=300)
        assert len(stage.server.connections) > 1, "it is dialled again, and takes the connections"
        assert [record.getMessage().split()[0] for record in caplog.records] == ["disconnected"]
        stage.server.script = answer
        for _ in range(2):
            await stage.call()
        assert [record.getMessage().split()[0] for record in caplog.records] == ["disconnected", "connected"]

    on_stage(play, ignore)


def test_a_call_that_is_out_of_time_does_not_arrive_after_the_next_one():
    async def play(stage: Stage) -> None:
        assert await stage.call() == 1
        stage.world.network.partition("here", "server")
        with pytest.raises(PeerTimedOutError):
            await stage.call(timeout_ms=300)
        stage.world.network.heal()
        assert await stage.call() == 1
        await trio.sleep(60)
        assert [each.number for each in stage.server.requests] == [1, 1]

    on_stage(play)


def test_a_late_call_takes_those_behind_it_with_it():
    async def play(stage: Stage) -> None:
        failed: list[PeerCallError] = []

        async def ask(timeout_ms: int) -> None:
            with pytest.raises(PeerTimedOutError) as caught:
                await stage.call(timeout_ms)
            failed.append(caught.value)

        started = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 100)
            nursery.start_soon(ask, 5000)
        assert len(failed) == 2
        assert trio.current_time() - started == pytest.approx(0.1)

    on_stage(play, ignore)


def test_a_call_without_a_slot_ends_a_connection_whose_requests_were_all_given_up():
    async def play(stage: Stage) -> None:
        with trio.move_on_after(0.1):
            await stage.call(timeout_ms=60_000)
        with pytest.raises(PeerTimedOutError):
            await stage.call(timeout_ms=100)
        assert len(stage.server.connections) == 1
        stage.server.script = answer
        assert await stage.call() == 1
        assert len(stage.server.connections) == 2

    on_stage(play, ignore, PeerLimits(max_in_flight=1))


def test_a_cancelled_call_leaves_the_connection_to_the_others():
    async def play(stage: Stage) -> None:
        async def slowly(request: Received) -> None:
            await trio.sleep(0.2)
            await request.answer()

        stage.server.script = slowly
        with trio.move_on_after(0.1) as scope:
            await stage.call()
        assert scope.cancelled_caught
        assert await stage.call() == 2
        assert len(stage.server.connections) == 1

    on_stage(play)


def test_a_cancelled_call_leaves_the_dial_to_the_others():
    async def play(stage: Stage) -> None:
        stage.world.network.faults.delay_ms = (100, 100)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancelled_after, 0.05, stage.call)
            assert await stage.call() == 1
        assert len(stage.server.connections) == 1

    async def cancelled_after(seconds: float, call: Callable[[], Awaitable[object]]) -> None:
        with trio.move_on_after(seconds):
            await call()

    on_stage(play)


@pytest.mark.parametrize("off_by", [-1, 1, 1000])
def test_a_response_of_another_correlation_id_ends_the_connection(off_by):
    async def play(stage: Stage) -> None:
        async def mix_up(request: Received) -> None:
            await request.answer(request.header.correlation_id + off_by)

        stage.server.script = mix_up
        with pytest.raises(PeerResponseError, match="correlation id"):
            await stage.call()
        stage.server.script = answer
        assert await stage.call() == 1

    on_stage(play)


def test_a_response_to_no_request_ends_the_connection():
    async def play(stage: Stage) -> None:
        async def twice(request: Received) -> None:
            await request.answer()
            await request.answer()

        stage.server.script = twice
        assert await stage.call() == 1
        await trio.sleep(0.1)
        stage.server.script = answer
        assert await stage.call() == 1
        assert len(stage.server.connections) == 2

    on_stage(play)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x05\x00\x00\x00\x01\x00",  # a body that ends too early
        b"\x00\x00\x00\x02\x00\x00",  # too short for its header
        b"\xff\xff\xff\xff",  # a negative length
        b"\x00\x01\x00\x01",  # longer than allowed
    ],
)
def test_what_is_no_response_ends_the_connection(data):
    async def play(stage: Stage) -> None:
        stage.server.script = lambda request: request.send(data)
        with pytest.raises(PeerResponseError):
            await stage.call()
        stage.server.script = answer
        assert await stage.call() == 1

    on_stage(play, limits=PeerLimits(max_response_bytes=65536))


def test_a_closed_connection_fails_what_waits_on_it():
    async def play(stage: Stage) -> None:
        with pytest.raises(PeerDisconnectedError, match="lost"):
            await stage.call()

    on_stage(play, hang_up)


def test_dials_that_fail_are_repeated_with_growing_pauses():
    async def play(stage: Stage) -> None:
        stage.peer.move(("nowhere", 1))
        failed_at: list[float] = []
        for _ in range(9):
            with pytest.raises(PeerDisconnectedError, match="cannot reach nowhere:1"):
                await stage.call(60_000)
            failed_at.append(trio.current_time())
        pauses_ms = [1000 * (late - early) for early, late in pairwise(failed_at)]
        for pause_ms, expected_ms in zip(pauses_ms, [50, 100, 200, 400, 800, 1000, 1000, 1000], strict=True):
            assert 0.79 * expected_ms <= pause_ms <= 1.21 * expected_ms

    on_stage(play)


def test_a_node_that_accepts_and_answers_nothing_is_not_dialled_without_pause():
    async def play(stage: Stage) -> None:
        for _ in range(7):
            with pytest.raises(PeerDisconnectedError):
                await stage.call()
        at = stage.server.accepted_at
        assert at[-1] - at[-2] > 0.7

    on_stage(play, hang_up)


def test_a_response_sets_the_pause_back():
    async def play(stage: Stage) -> None:
        stage.server.script = hang_up
        for _ in range(7):
            with pytest.raises(PeerDisconnectedError):
                await stage.call()
        stage.server.script = answer
        await stage.call(10_000)
        stage.server.script = hang_up
        with pytest.raises(PeerDisconnectedError):
            await stage.call()
        lost_at = trio.current_time()
        stage.server.script = answer
        await stage.call()
        assert trio.current_time() - lost_at < 0.07

    on_stage(play)


def test_a_dial_across_a_partition_ends_with_the_call_and_works_after_it():
    async def play(stage: Stage) -> None:
        stage.world.network.partition("here", "server")
        with pytest.raises(PeerTimedOutError):
            await stage.call(500)
        stage.world.network.heal()
        with pytest.raises(PeerDisconnectedError):  # it waits for the dial that began before
            await stage.call(60_000)
        assert await stage.call(60_000) == 1

    on_stage(play)


def test_a_dial_is_bounded():
    async def play(stage: Stage) -> None:
        stage.world.network.partition("here", "server")
        started = trio.current_time()
        with pytest.raises(PeerDisconnectedError, match="no answer"):
            await stage.call(60_000)
        assert trio.current_time() - started == pytest.approx(0.2)

    on_stage(play, limits=PeerLimits(connect_timeout_ms=200))


def test_a_node_that_moved_is_called_at_its_new_place():
    async def play(stage: Stage) -> None:
        assert await stage.call() == 1
        elsewhere = stage.listen(answer, ("server", 10))
        stage.server.script = ignore
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, stage.call)
            await trio.sleep(0.1)
            stage.peer.move(("server", 10))
        assert await stage.call() == 1
        assert len(elsewhere.connections) == 1

    async def fails(call: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(PeerDisconnectedError, match="moved from server:9"):
            await call()

    on_stage(play)


def test_a_closed_peer_answers_no_call():
    async def play(stage: Stage) -> None:
        assert await stage.call() == 1
        stage.peer.close()
        stage.peer.close()
        with pytest.raises(PeerDisconnectedError, match="closed on our side"):
            await stage.call()

    on_stage(play)


def test_a_node_closed_while_it_is_dialled_is_not_connected_to():
    async def play(stage: Stage) -> None:
        stage.world.network.faults.delay_ms = (100, 100)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, stage.call)
            await trio.sleep(0.05)
            stage.peer.close()
        await trio.sleep(1)
        assert stage.server.requests == []

    async def fails(call: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(PeerDisconnectedError):
            await call()

    on_stage(play)


def test_a_version_that_the_message_does_not_have_is_refused_and_takes_no_slot():
    async def play(stage: Stage) -> None:
        for _ in range(3):
            with pytest.raises(UnsupportedVersionError):
                await stage.peer.call(REQUEST, 99, SOON_MS)
        assert await stage.call() == 1

    on_stage(play, limits=PeerLimits(max_in_flight=1))


def test_a_request_that_cannot_be_encoded_fails_alone_and_takes_no_slot():
    """It is a bug of ours, and ends neither the connection nor the process."""

    async def play(stage: Stage) -> None:
        for _ in range(3):
            with pytest.raises(PeerRequestError, match="BrokerHeartbeatRequest version 1 cannot be encoded"):
                await stage.peer.call(BrokerHeartbeatRequest(broker_id=2**31), 1, SOON_MS)
        assert await stage.call() == 1  # the first request that was sent

    on_stage(play, limits=PeerLimits(max_in_flight=1))


def test_a_request_larger_than_the_window_is_sent_in_parts_and_those_behind_it_follow():
    large = EnvelopeRequest(request_data=bytes(1_000_000), client_host_address=b"")

    async def play(stage: Stage) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(unanswered, stage.peer.call, large)
            await trio.sleep(0.01)
            nursery.start_soon(unanswered, stage.peer.call, REQUEST)
            await trio.sleep(5)
            assert [each.header.api_key.name for each in stage.server.requests] == ["ENVELOPE", "BROKER_HEARTBEAT"]
            nursery.cancel_scope.cancel()

    async def unanswered(call: Callable[..., Awaitable[object]], request: object) -> None:
        await call(request, 0, 60_000)

    on_stage(play, ignore)


def test_peers_are_one_for_each_node_and_move_with_it():
    async def play(stage: Stage) -> None:
        peers = Peers(stage.env, stage.nursery, "test")
        first = peers.at(1, SERVER)
        assert peers.at(1, SERVER) is first
        assert peers.at(2, SERVER) is not first
        assert peers.at(1, ("server", 10)) is first
        assert first.endpoint == ("server", 10)
        peers.forget(1)
        peers.forget(1)
        with pytest.raises(PeerDisconnectedError):
            await first.call(REQUEST, 1, SOON_MS)
        peers.close()

    on_stage(play)


def test_one_seed_gives_one_course_of_events():
    def digest(seed: int) -> str:
        async def main() -> str:
            async with staged(answer, None, seed) as stage:
                stage.world.network.faults.delay_ms = (0, 50)
                stage.world.network.faults.reset = 0.1
                stage.world.network.faults.cut = 0.1
                for _ in range(50):
                    try:
                        await stage.call(200)
                    except PeerCallError:
                        continue
                return stage.world.trace.digest

        return run_virtually(seed, main)

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


@pytest.mark.parametrize("seed", range(20))
def test_every_call_ends_whatever_the_network_does(seed):
    async def play(stage: Stage) -> None:
        chance, faults = random.Random(seed), stage.world.network.faults
        faults.delay_ms, faults.partial = (0, 30), 0.3
        faults.reset, faults.cut, faults.spike = 0.03, 0.03, 0.05
        ended = 0

        async def ask() -> None:
            nonlocal ended
            with trio.move_on_after(chance.choice([0.01, 0.1, 10])):
                with suppress(PeerCallError):
                    await stage.call(chance.choice([50, 500, 5000]))
            ended += 1

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(ask)
                await trio.sleep(chance.random() / 100)
        assert ended == 200
        faults.reset = faults.cut = faults.spike = 0
        for _ in range(200):  # every slot was given back
            await stage.call(60_000)

    on_stage(play, limits=PeerLimits(max_in_flight=4), seed=seed)
