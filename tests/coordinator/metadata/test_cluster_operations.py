"""Operations without a script: changes in parts, features, directories, producer ids, several topics at once."""

from functools import partial
from uuid import UUID

import pytest
from cluster_world import CLUSTER_ID, FEATURES, ClusterWorld

from odradek.coordinator.metadata.controller import broker_changes
from odradek.coordinator.metadata.controller.broker_registration import broker_registration, controller_registration
from odradek.coordinator.metadata.controller.features import update_features
from odradek.coordinator.metadata.controller.producer_ids import PRODUCER_ID_BLOCK, grant_producer_ids
from odradek.coordinator.metadata.controller.unregister_broker import remove_leftover
from odradek.coordinator.metadata.settings import MetadataConfig
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from odradek.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from odradek.wire.messages.controller_registration import ControllerRegistrationRequest, Listener
from odradek.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

PARTITIONS = 7


@pytest.fixture
def world() -> ClusterWorld:
    world = ClusterWorld({"min.insync.replicas": "2"})
    for broker in (1, 2, 3):
        world.register(broker, broker)
        world.heartbeat(broker)
    return world


@pytest.fixture
def in_parts(world, monkeypatch) -> ClusterWorld:
    """A cluster where broker 1 leads seven partitions, and one part of a change has at most two partitions."""
    for _ in world.advance(0):
        pass  # a new controller first checks for partitions without a leader
    world.create("t", replicas=[(1, 2, 3)] * PARTITIONS)
    monkeypatch.setattr(broker_changes, "MAX_CHANGES", 2)
    return world


def leaders(world):
    return [part.leader for part in world.image.topics_by_name["t"].partitions]


def led_by(world, broker):
    return sum(leader == broker for leader in leaders(world))


class TestParts:
    def test_a_silent_broker_is_fenced_once_its_partitions_are_moved(self, in_parts):
        world = in_parts
        world.now_ms += 9001
        world.heartbeat(2)
        world.heartbeat(3)
        left = []
        for _ in world.advance(0):
            left.append(led_by(world, 1))
            assert world.image.brokers[1].fenced == (left[-1] == 0)
        assert left == [5, 3, 1, 0]

    def test_a_heartbeat_that_wants_a_fence_is_answered_before_all_is_done(self, in_parts):
        world = in_parts
        assert not world.heartbeat(1, fence=True).is_fenced
        assert led_by(world, 1) == 5
        for _ in world.advance(0):
            pass
        assert (world.image.brokers[1].fenced, led_by(world, 1)) == (True, 0)

    def test_a_broker_stops_only_when_the_others_know_the_last_part_of_its_shutdown(self, in_parts):
        world = in_parts
        while led_by(world, 1):
            known = len(world.log) - 1
            assert not world.heartbeat(1, stop=True).should_shut_down
        for other in (2, 3):
            world.heartbeat(other, offset=known)  # all parts but the last
        assert not world.heartbeat(1, stop=True).should_shut_down
        for other in (2, 3):
            world.heartbeat(other)
        assert world.heartbeat(1, stop=True).should_shut_down

    def test_a_shutdown_goes_on_with_each_heartbeat(self, in_parts):
        world, left = in_parts, []
        while not world.image.brokers[1].fenced:
            answer = world.heartbeat(1, stop=True)
            left.append(led_by(world, 1))
            world.heartbeat(2)
            world.heartbeat(3)
        assert left == [5, 3, 1, 0, 0]
        assert answer.should_shut_down

    def test_a_new_incarnation_comes_again_until_the_old_one_is_out_of_all(self, in_parts):
        world = in_parts
        world.fail_over()
        answers = [world.register(1, 100) for _ in range(4)]
        assert [answer.error_code for answer in answers] == [ErrorCode.REQUEST_TIMED_OUT] * 3 + [0]
        assert led_by(world, 1) == 0
        assert world.image.brokers[1].epoch == answers[-1].broker_epoch == len(world.log) - 1

    def test_a_broker_is_removed_once_it_is_out_of_all(self, in_parts):
        codes = [in_parts.unregister(1).error_code for _ in range(4)]
        assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 3 + [0]
        assert 1 not in in_parts.image.brokers

    def test_leaders_that_an_unfenced_broker_makes_possible_are_elected_in_time(self, in_parts):
        world = in_parts
        for broker in (2, 3, 1):
            while not world.image.brokers[broker].fenced:
                world.heartbeat(broker, fence=True)
        assert set(leaders(world)) == {-1}
        world.heartbeat(1)
        assert led_by(world, 1) == 2
        for _ in world.advance(0):
            pass
        assert led_by(world, 1) == PARTITIONS

    def test_a_failover_in_the_middle_loses_nothing_of_it(self, in_parts):
        world = in_parts
        world.heartbeat(1, fence=True)
        world.fail_over()
        assert not world.image.brokers[1].fenced
        world.now_ms += 9001
        world.heartbeat(2)
        world.heartbeat(3)
        for _ in world.advance(0):
            pass
        assert (world.image.brokers[1].fenced, led_by(world, 1)) == (True, 0)


class TestRegistration:
    def request(self, **values):
        given = {
            "broker_id": 4,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": UUID(int=4),
            "features": FEATURES,
            **values,
        }
        return BrokerRegistrationRequest(**given)

    def test_the_fields_of_a_registration_are_kept(self, world):
        assert world.run(broker_registration, self.request(rack="r", log_dirs=(UUID(int=9),))).error_code == 0
        broker = world.image.brokers[4]
        assert (broker.rack, broker.log_dirs, broker.features["metadata.version"]) == ("r", (UUID(int=9),), (7, 30))

    @pytest.mark.parametrize(
        ("values", "code"),
        [
            ({"features": FEATURES[:-1]}, ErrorCode.UNSUPPORTED_VERSION),
            (
                {"features": (*FEATURES[:-1], Feature(name=FEATURES[-1].name, max_supported_version=1))},
                ErrorCode.UNSUPPORTED_VERSION,
            ),
            ({"log_dirs": (UUID(int=9), UUID(int=9))}, ErrorCode.INVALID_REGISTRATION),
            ({"log_dirs": (UUID(int=5),)}, ErrorCode.INVALID_REGISTRATION),
            ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ],
    )
    def test_a_broker_that_cannot_serve_is_refused(self, world, values, code):
        five = self.request(broker_id=5, incarnation_id=UUID(int=50), log_dirs=(UUID(int=5),))
        assert world.run(broker_registration, five).error_code == 0
        assert world.run(broker_registration, self.request(**values)).error_code == code
        assert 4 not in world.image.brokers

    def test_a_controller_is_registered_with_its_listeners(self, world):
        request = ControllerRegistrationRequest(
            controller_id=3000, incarnation_id=UUID(int=1), listeners=(Listener(name="CONTROLLER", host="h", port=9),)
        )
        assert world.run(controller_registration, request).error_code == 0
        assert world.image.controllers[3000].listeners["CONTROLLER"].port == 9


def test_features_are_updated_only_to_levels_that_all_brokers_can_serve(world):
    narrow = tuple(
        Feature(name=each.name, max_supported_version=1) if each.name == "transaction.version" else each
        for each in FEATURES
    )
    down = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
    up = FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=1)

    def update(key):
        request = UpdateFeaturesRequest(feature_updates=(key,))
        return world.run(partial(update_features, api_version=2), request)

    assert update(down).error_code == 0
    assert world.register(4, 4, features=narrow).error_code == 0
    refused = update(up)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "broker 4" in refused.error_message
    world.unregister(4)
    assert update(up).error_code == 0


def test_blocks_of_producer_ids_go_to_brokers_of_the_present_incarnation(world):
    def grant(broker, epoch):
        return world.run(grant_producer_ids, AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch))

    first, second = grant(1, world.epoch_of(1)), grant(2, world.epoch_of(2))
    assert second.producer_id_start == first.producer_id_start + first.producer_id_len
    assert first.producer_id_len == PRODUCER_ID_BLOCK
    assert grant(1, world.epoch_of(1) + 1).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert grant(9, 0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_sends_no_heartbeats_is_never_stale():
    world = ClusterWorld()
    assert world.shard.next_deadline_ms() == 0, "partitions without a leader are looked at first"
    assert [records for records in world.advance(0) if records] == []
    assert world.shard.next_deadline_ms() is None


@pytest.mark.parametrize(("fences_itself", "fenced"), [(True, [1, 2]), (False, [2])])
def test_a_sole_voter_does_not_fence_its_own_broker_for_its_silence(world, fences_itself, fenced):
    world.unregister(3)
    world.config = MetadataConfig(1, world.config.static, fences_itself)
    world.fail_over()
    for _ in world.advance(60_000):
        pass
    assert [broker.id for broker in world.image.brokers.values() if broker.fenced] == fenced
    assert not world.heartbeat(1, stop=True).error_code
    assert world.image.brokers[1].fenced, "it wants to be"


def test_the_registration_of_a_node_that_is_no_broker_is_removed_in_parts(in_parts):
    done = []
    while not done or not done[-1]:
        done.append(in_parts.run(remove_leftover, 1))
    assert done == [False, False, False, True]
    assert 1 not in in_parts.image.brokers
    assert led_by(in_parts, 1) == 0
