"""Three hosts with production replicas, fetchers, Fetch handler and AlterPartition sender, under virtual time.

Each host has an environment, a disk and a network of the simulated world; the controller is the scripted one. Requests
and responses are encoded and decoded, and take time; a link that is cut loses them.
"""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from uuid import UUID

import trio
from replication_controller import IDS, MIN_INSYNC, Controller, Image

from odradek.coordinator.metadata.image.delta import MetadataDelta
from odradek.coordinator.metadata.image.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from odradek.gateway.env.deadlines import Deadlines
from odradek.gateway.env.repeats import Repeats
from odradek.gateway.env.signals import Ticker
from odradek.gateway.errors import PartitionUnavailable
from odradek.gateway.handlers import fetch, list_offsets
from odradek.gateway.peers import PeerDisconnectedError
from odradek.gateway.replication.alter_partition import AlterPartitionSender, NoAnswerError
from odradek.gateway.replication.commit import Backlog
from odradek.gateway.replication.fetcher import FetcherSettings
from odradek.gateway.replication.fetchers import ReplicaFetchers
from odradek.gateway.replication.replica import LogResources
from odradek.gateway.replication.replicas import Replicas
from odradek.gateway.server.context import RequestContext
from odradek.gateway.testing.simulation import World
from odradek.partitions.config import LogConfig
from odradek.partitions.fetching.sessions import FetchSessions
from odradek.partitions.in_sync import IsrDecision, IsrMember, IsrProposal
from odradek.partitions.results import AppendOrigin, Rejected
from odradek.storage_backends.interface import StoreError
from odradek.wire.api_keys import ApiKey
from odradek.wire.errors import ErrorCode
from odradek.wire.headers import decode_response, encode_response_parts
from odradek.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from odradek.wire.schema.schema import Message

TOPIC, TOPIC_ID = "t", UUID(int=9)
CONFIG = LogConfig(min_insync_replicas=MIN_INSYNC, replica_lag_time_max_ms=600, segment_bytes=2_000)
SETTINGS = FetcherSettings(wait_max_ms=100, backoff_ms=50, timeout_ms=1000)


class Hosts:
    """The hosts of one run, the controller, and the links that are cut."""

    def __init__(self, seed: int, nursery: trio.Nursery) -> None:
        self.world = World(seed)
        self.chance = self.world.chance("hosts")
        self.nursery = nursery
        self.cut: set[tuple[int, int]] = set()
        self.controller = Controller(self, lambda _image: None)
        self.hosts = {each: Host(self, each) for each in IDS}

    @property
    def now_ms(self) -> int:
        return int(trio.current_time() * 1000)

    async def travel(self, source: int, target: int) -> None:
        """The delay of a message; 0 is the controller. Raises PeerDisconnectedError if the message is lost."""
        await trio.sleep(self.chance.uniform(0.0002, 0.004))
        if (source, target) in self.cut:
            await trio.sleep(0.3)
            raise PeerDisconnectedError(target, "cut")

    @property
    def leader(self) -> "Host | None":
        found = self.hosts.get(self.controller.now.leader)
        return found if found is not None and found.scope is not None else None


class Host:
    """One broker's replication, over several starts."""

    def __init__(self, hosts: Hosts, node_id: int) -> None:
        self.hosts = hosts
        self.id = node_id
        self.name = f"host-{node_id}"
        self.epoch = node_id
        self.scope: trio.CancelScope | None = None
        self.ended = trio.Event()
        self.replicas: Replicas | None = None

    async def live(self, *, first: bool = False) -> None:
        """Runs until `crash`."""
        self.ended, self.scope = trio.Event(), trio.CancelScope()
        self.env = self.hosts.world.environment(self.name)
        if not first:
            self.epoch = self.hosts.controller.register(self.id, clean=True)
        try:
            with self.scope:
                async with trio.open_nursery() as nursery:
                    self._open(nursery)
                    nursery.start_soon(self._beat)
                    nursery.start_soon(self._follow_images)
                    nursery.start_soon(self._watch_lag)
                    await trio.sleep_forever()
        finally:
            self.scope, self.replicas = None, None
            self.ended.set()

    def _open(self, nursery: trio.Nursery) -> None:
        sender = AlterPartitionSender(self.id, lambda: self.epoch, self._alter_partition)
        env, repeats = self.env, Repeats()
        resources = LogResources(
            env.open_store(""),
            env,
            Ticker(nursery),
            Deadlines(env, nursery),
            Backlog(1 << 20),
            1 << 20,
            repeats,
            proposals=sender,
        )
        self.replicas = Replicas(resources, self.id, lambda _image, _topic: CONFIG)
        self.fetchers = ReplicaFetchers(
            self.id, env, nursery, self.replicas.get, self._connect, lambda: SETTINGS, repeats
        )
        self.image = MetadataImage()
        self.services = SimpleNamespace(
            env=env,
            fetch_sessions=FetchSessions(10, lambda: env.random.randrange(1, 2**31), 100),
            metadata=SimpleNamespace(topic_name=lambda each: TOPIC if each == TOPIC_ID else None, image=self.image),
            replicas=self.replicas,
            stopping=False,
            config=SimpleNamespace(fetch_max_bytes=1 << 20),
        )
        nursery.start_soon(sender.run)

    async def crash(self) -> None:
        """Cuts its power."""
        if self.scope is not None:
            self.hosts.world.crash(self.env, power_cut=True)
            self.scope.cancel()
            await self.ended.wait()

    async def _beat(self) -> None:
        while True:
            try:
                await self.hosts.travel(self.id, 0)
                self.hosts.controller.heartbeat(self.id, self.epoch)
            except PeerDisconnectedError:
                continue
            await trio.sleep(0.05)

    async def _watch_lag(self) -> None:
        while True:
            await trio.sleep(CONFIG.replica_lag_time_max_ms / 2000)
            assert self.replicas is not None
            self.replicas.check_lag()

    async def _follow_images(self) -> None:
        """Publishes the controller's decisions after a short delay."""
        published: Image | None = None
        while True:
            now = self.hosts.controller.now
            if now is not published and (0, self.id) not in self.hosts.cut:
                await trio.sleep(self.hosts.chance.uniform(0.001, 0.02))
                published = now
                self._publish(now)
            await trio.sleep(0.01)

    def _publish(self, now: Image) -> None:
        delta = MetadataDelta(self.image)
        if self.image.topic(TOPIC) is None:
            delta.topics.create(TopicImage(TOPIC, TOPIC_ID, is_internal=False))
        partition = PartitionImage(IDS, now.isr, now.leader, now.leader_epoch, now.partition_epoch, elr=now.elr)
        delta.topics.set_partition(TOPIC_ID, 0, partition)
        for broker_id, standing in now.brokers.items():
            broker = BrokerImage(broker_id, standing.epoch, UUID(int=standing.epoch), {}, fenced=not standing.is_active)
            delta.brokers.set(broker_id, broker)
        delta.advance(delta.offset + 1, 0)
        self.image = self.services.metadata.image = delta.apply()
        assert self.replicas is not None
        self.replicas.on_published(delta, self.image)
        self.fetchers.on_published(delta, self.image)

    async def _alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        [topic] = request.topics
        [asked] = topic.partitions
        members = [IsrMember(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs]
        try:
            await self.hosts.travel(self.id, 0)
            proposal = IsrProposal(tuple(members), asked.leader_epoch, asked.partition_epoch)
            answer = self.hosts.controller.alter_partition(self.id, proposal)
            await self.hosts.travel(0, self.id)
        except PeerDisconnectedError as error:
            raise NoAnswerError(str(error)) from error
        decided = AlterPartitionResponsePartitionData(partition_index=0)
        if isinstance(answer, IsrDecision):
            decided = replace(
                decided, leader_epoch=answer.leader_epoch, isr=answer.isr, partition_epoch=answer.partition_epoch
            )
        else:
            decided = replace(decided, error_code=answer)
        return AlterPartitionResponse(
            topics=(AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=(decided,)),)
        )

    # Requests of followers

    def _connect(self, leader_id: int, _number: int) -> SimpleNamespace:
        return SimpleNamespace(
            fetch=partial(self._call, leader_id, ApiKey.FETCH, 17),
            list_offsets=partial(self._call, leader_id, ApiKey.LIST_OFFSETS, 9),
            close=lambda: None,
        )

    async def _call(self, leader_id: int, key: ApiKey, version: int, request: Message, timeout_ms: int) -> Message:
        """A leader that crashes gives no answer: the request then times out."""
        leader = self.hosts.hosts[leader_id]
        await self.hosts.travel(self.id, leader_id)
        if leader.scope is None:
            raise PeerDisconnectedError(leader_id, "down")
        life = leader.scope
        with trio.move_on_after(timeout_ms / 1000):
            response = await leader.answer(key, version, request)
            await self.hosts.travel(leader_id, self.id)
            if leader.scope is life:
                return response
        raise PeerDisconnectedError(leader_id, "no answer")

    async def answer(self, key: ApiKey, version: int, request: Message) -> Message:
        """The response of this host's handler, encoded and decoded."""
        session = SimpleNamespace(listener="", is_controller=False)
        ctx = RequestContext(key, version, 1, "peer", session, self.services, 0)
        handle = fetch.handle if key is ApiKey.FETCH else list_offsets.handle
        response = await handle(ctx, request)
        frame = b"".join(bytes(part) for part in encode_response_parts(response, version, 1))
        ctx.finish()
        return decode_response(key, version, memoryview(frame)[4:])[1]

    async def produce(self, data: bytes) -> ErrorCode:
        """Produces with acks=all, and waits for a limited time."""
        assert self.replicas is not None
        replica = self.replicas.get(TOPIC, 0)
        if replica is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            await replica.ensure_open()
            result = replica.append(memoryview(bytearray(data)), AppendOrigin.CLIENT, all_in_sync=True)
            if isinstance(result, Rejected):
                return result.error
            with trio.fail_after(0.4):
                await replica.committed(result.last_offset + 1).wait()
        except PartitionUnavailable as error:
            return error.error
        except (StoreError, trio.TooSlowError):
            return ErrorCode.REQUEST_TIMED_OUT
        return ErrorCode.NONE
