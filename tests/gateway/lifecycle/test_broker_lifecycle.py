"""A broker registers with the active controller, is unfenced, and leaves, with the production controller."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest
import trio

from odradek.coordinator.metadata.controller.broker_heartbeat import broker_heartbeat
from odradek.coordinator.metadata.controller.create_topics import create_topics
from odradek.coordinator.metadata.controller.unregister_broker import unregister_broker
from odradek.coordinator.metadata.image.image import MetadataImage
from odradek.gateway.config import load_config
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.signals import Watchable
from odradek.gateway.errors import StartError
from odradek.gateway.lifecycle import CleanEnd
from odradek.gateway.lifecycle.broker import BrokerLifecycle
from odradek.gateway.lifecycle.incarnation import Incarnation
from odradek.gateway.metadata.active import ActiveController
from odradek.gateway.metadata.channel import ControllerChannel
from odradek.gateway.testing.simulation import World, run_virtually
from odradek.gateway.testing.simulation.broker_host import BrokerHost
from odradek.storage_backends.interface import StoreError
from odradek.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from odradek.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.unregister_broker import UnregisterBrokerRequest
from odradek.wire.schema.schema import Message

CONTROLLER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://controller:9092,CONTROLLER://controller:9093",
    "controller.quorum.voters": "1@controller:9093",
}


class Elsewhere:
    """The leadership of a node that is not the active controller."""

    def __init__(self) -> None:
        self.is_active = False
        self.active: ActiveController | None = ActiveController(1, ("controller", 9093))
        self.changes = Watchable()


class Image:
    """This broker's image: the controller's image while `follows` is true."""

    def __init__(self, host: BrokerHost) -> None:
        self.changes = Watchable()
        self.follows = True
        self._host = host
        self._last = MetadataImage()

    @property
    def image(self) -> MetadataImage:
        if self.follows and self._host.broker is not None:
            self._last = self._host.broker.services.metadata.image
        return self._last

    def stay_fenced(self, number: int) -> None:
        """Freezes the image in the state where broker `number` is registered and still fenced."""
        now = self.image
        self.follows = False
        self._last = replace(now, brokers={**now.brokers, number: replace(now.brokers[number], fenced=True)})


class Stage:
    """The controller's host, and brokers on the same host."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.world = World(1)
        self.host = BrokerHost(self.world, "controller", settings=CONTROLLER)
        self.image = Image(self.host)
        self.leadership = Elsewhere()
        self.repeats = Repeats()

    @property
    def services(self):
        assert self.host.broker is not None
        return self.host.broker.services

    def broker(self, number: int = 2, lost: Sequence[str] = (), **settings: str) -> BrokerLifecycle:
        env = self.world.environment(f"host-{number}")

        async def never(_request: Message) -> Message:
            raise AssertionError("this node is not the active controller")

        channel = ControllerChannel(env, self.nursery, self.leadership, never, "test")
        clean_end = CleanEnd(self.world.disk(f"host-{number}").open(), env)
        return self.lifecycle(channel, clean_end, number, lost=lost, **settings)

    def lifecycle(
        self,
        channel,
        clean_end: CleanEnd,
        number: int = 2,
        cluster_id: str = "",
        lost: Sequence[str] = (),
        **settings: str,
    ):
        texts = {name.replace("_", "."): text for name, text in settings.items()}
        config = load_config(None, {"node.id": str(number), "broker.rack": "r", **texts}, {})
        listeners = {"PLAINTEXT": (f"host-{number}", 9092)}
        env = self.world.environment(f"host-{number}")
        return BrokerLifecycle(
            env,
            config,
            channel,
            self.image,
            lambda: cluster_id or self.image.image.cluster_id,
            listeners,
            clean_end,
            Incarnation(config, env.uuid()),
            self.repeats,
            lambda _time_ms: lost,
        )

    def known(self, number: int = 2):
        return self.services.metadata.image.brokers.get(number)

    async def topic(self, *replicas: int) -> None:
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
        wanted = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=(assignment,))
        answer = await self.services.controller.decide(create_topics, CreateTopicsRequest(topics=(wanted,)))
        assert answer.topics[0].error_code == 0, answer


def on_stage(play: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            stage = Stage(nursery)
            stage.host.start(nursery)
            await stage.host.ready()
            await play(stage)
            nursery.cancel_scope.cancel()
        stage.world.close()

    run_virtually(1, main)


def test_a_broker_registers_and_is_unfenced_when_its_image_has_the_registration():
    async def play(stage: Stage) -> None:
        stage.image.image  # noqa: B018 - as it is before the registration
        stage.image.follows = False
        broker = stage.broker()
        stage.nursery.start_soon(broker.run)
        await trio.sleep(10)
        known = stage.known()
        assert known.fenced
        assert (known.epoch, known.rack) == (broker.epoch, "r")
        assert known.listeners["PLAINTEXT"].host == "host-2"
        assert not broker.unfenced.is_set()
        stage.image.follows = True
        stage.image.changes.notify()
        with trio.fail_after(0.2):
            await broker.unfenced.wait()
        assert not stage.known().fenced

    on_stage(play)


def test_it_serves_once_its_own_image_lists_it():
    async def play(stage: Stage) -> None:
        broker = stage.broker()
        stage.nursery.start_soon(broker.run)
        await broker.unfenced.wait()
        stage.image.stay_fenced(2)
        with trio.move_on_after(10) as waited:
            await broker.await_listed()
        assert waited.cancelled_caught
        stage.image.follows = True
        stage.image.changes.notify()
        await broker.await_listed()

    on_stage(play)


def test_a_broker_waits_for_its_controller():
    async def play(stage: Stage) -> None:
        active, stage.leadership.active = stage.leadership.active, None
        broker = stage.broker()
        stage.nursery.start_soon(broker.run)
        await trio.sleep(20)
        assert stage.known() is None
        stage.leadership.active = active
        stage.leadership.changes.notify()
        with trio.fail_after(1):
            await broker.unfenced.wait()

    on_stage(play)


def test_heartbeats_that_no_controller_takes_are_logged_once_and_then_counted(caplog: pytest.LogCaptureFixture):
    async def play(stage: Stage) -> None:
        broker = stage.broker()
        stage.nursery.start_soon(broker.run)
        await broker.unfenced.wait()
        stage.leadership.active = None
        await trio.sleep(50)
        stage.repeats.report()

    on_stage(play)
    lines = [
        record.getMessage() for record in caplog.records if "no controller takes heartbeats" in record.getMessage()
    ]
    assert ["times=" in line for line in lines] == [False, True]


def refused(stage: Stage, broker: BrokerLifecycle, message: str) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        with pytest.raises(StartError, match=message):
            await broker.run()

    return run


def test_without_a_controller_the_start_fails_and_names_the_settings():
    async def play(stage: Stage) -> None:
        stage.leadership.active = None
        broker = stage.broker(initial_broker_registration_timeout_ms="5000")
        started = trio.current_time()
        await refused(stage, broker, r"no controller of its cluster answers \(controller\.quorum\.voters")()
        assert trio.current_time() - started == pytest.approx(5, abs=0.5)

    on_stage(play)


def test_a_second_broker_of_the_same_id_is_refused_while_the_first_lives():
    async def play(stage: Stage) -> None:
        first = stage.broker()
        stage.nursery.start_soon(first.run)
        await first.unfenced.wait()
        stage.world.disk("host-2").close()
        second = stage.broker(initial_broker_registration_timeout_ms="15000")
        await refused(stage, second, r"node\.id 2 cannot register: another broker of this node\.id is running")()

    on_stage(play)


def test_a_broker_of_another_cluster_is_refused_at_once():
    async def play(stage: Stage) -> None:
        broker = stage.broker(cluster_id="another")
        await refused(stage, broker, "belong to another cluster")()

    on_stage(play)


def test_a_broker_that_was_unregistered_registers_again():
    async def play(stage: Stage) -> None:
        broker = stage.broker()
        stage.nursery.start_soon(broker.run)
        await broker.unfenced.wait()
        before = broker.epoch
        await stage.services.controller.decide(unregister_broker, UnregisterBrokerRequest(broker_id=2))
        assert stage.known() is None
        await trio.sleep(5)
        assert stage.known().epoch == broker.epoch > before
        assert not stage.known().fenced

    on_stage(play)


@pytest.mark.parametrize("want_shut_down", [True, False])
def test_a_broker_that_another_peer_has_fenced_serves_again(want_shut_down):
    """A broker's epoch is easily guessed, and any peer may send a heartbeat with it."""

    async def play(stage: Stage) -> None:
        brokers = [stage.broker(2), stage.broker(3)]
        for broker in brokers:
            stage.nursery.start_soon(broker.run)
            await broker.unfenced.wait()
        await stage.topic(2, 3)
        before = brokers[0].epoch
        forged = BrokerHeartbeatRequest(
            broker_id=2, broker_epoch=before, want_fence=not want_shut_down, want_shut_down=want_shut_down
        )
        await stage.services.controller.decide(broker_heartbeat, forged)
        await trio.sleep(10)
        known = stage.known(2)
        assert not brokers[0].released.is_set()
        assert (known.fenced, known.in_controlled_shutdown, known.epoch) == (False, False, brokers[0].epoch)
        assert (known.epoch > before) is want_shut_down

    on_stage(play)


def test_a_broker_that_cannot_write_what_others_could_lead_is_fenced_and_ends():
    async def play(stage: Stage) -> None:
        lost: list[str] = []
        broker = stage.broker(lost=lost)

        async def lose() -> None:
            await broker.unfenced.wait()
            lost.append("t-0")

        stage.nursery.start_soon(lose)
        with pytest.raises(StoreError, match="1 partitions cannot be written, the first t-0"):
            await broker.run()
        known = stage.known()
        assert known is not None
        assert known.fenced

    on_stage(play)


def test_a_broker_that_stops_is_released_when_others_lead():
    async def play(stage: Stage) -> None:
        brokers = [stage.broker(2), stage.broker(3)]
        for broker in brokers:
            stage.nursery.start_soon(broker.run)
            await broker.unfenced.wait()
        await stage.topic(2, 3)
        assert stage.services.metadata.image.partition("t", 0).leader == 2
        await brokers[0].shut_down(30_000)
        assert brokers[0].released.is_set()
        part = stage.services.metadata.image.partition("t", 0)
        assert (part.leader, part.isr) == (3, (3,))
        assert stage.known(2).fenced
        assert not stage.known(3).fenced

    on_stage(play)


@pytest.mark.parametrize(("allowed_ms", "takes_s"), [(500, 0.5), (30_000, 4)])
def test_a_broker_that_no_controller_releases_stops_all_the_same(allowed_ms, takes_s):
    async def play(stage: Stage) -> None:
        broker = stage.broker()
        stage.nursery.start_soon(broker.run)
        await broker.unfenced.wait()
        await stage.host.crash(power_cut=True)
        started = trio.current_time()
        await broker.shut_down(allowed_ms)
        assert trio.current_time() - started == pytest.approx(takes_s, abs=0.1)

    on_stage(play)


def test_a_broker_that_stops_during_an_election_is_released_by_the_next_controller():
    async def play(stage: Stage) -> None:
        brokers = [stage.broker(2), stage.broker(3)]
        for broker in brokers:
            stage.nursery.start_soon(broker.run)
            await broker.unfenced.wait()
        await stage.topic(2, 3)
        active, stage.leadership.active = stage.leadership.active, None

        async def elect() -> None:
            await trio.sleep(3.5)
            stage.leadership.active = active
            stage.leadership.changes.notify()

        stage.nursery.start_soon(elect)
        await brokers[0].shut_down(30_000)
        part = stage.services.metadata.image.partition("t", 0)
        assert (part.leader, part.isr) == (3, (3,))

    on_stage(play)


class Recording:
    """A channel to a controller that registers every broker; `requests` has the requests."""

    def __init__(self) -> None:
        self.requests: list[Message] = []

    async def call(self, request: Message, _version: int, _timeout_ms: int, _attempt_ms: int) -> Message:
        self.requests.append(request)
        await trio.sleep(0.01)
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(broker_epoch=len(self.requests))
        return BrokerHeartbeatResponse(is_fenced=False)


def test_only_a_broker_that_has_ended_in_order_presents_its_epoch():
    async def play(stage: Stage) -> None:
        presented: list[int] = []
        clean_end = CleanEnd(stage.world.disk("host-2").open(), stage.world.environment("host-2"))
        await clean_end.put(41)
        for _ in range(2):
            channel = Recording()
            broker = stage.lifecycle(channel, clean_end)
            with trio.move_on_after(1):
                await broker.run()
            presented.append(channel.requests[0].previous_broker_epoch)
        assert presented == [41, -1]

    on_stage(play)
