"""`odradek cluster` against three real nodes, and its plans."""

import json
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner
from gateway_client import RawClient
from kafka import KafkaAdminClient
from kafka.errors import NodeNotReadyError

import odradek
from odradek.gateway.cli import propagation
from odradek.gateway.cli.client import Admin
from odradek.gateway.cli.errors import INTERRUPTED
from odradek.gateway.cli.main import cli
from odradek.gateway.cli.replica_plan import TooFewBrokersError, onto, over, without
from odradek.gateway.cli.throttle import FOLLOWERS, LEADERS, RATES, brokers_of, remove_throttle, throttled_replicas
from odradek.gateway.testing.cluster import TestCluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.fixture(scope="module")
def nodes() -> Iterator[TestCluster]:
    # A broker whose links are cut is not fenced while a command runs, however slow the machine.
    with odradek.cluster(brokers=3, config={"broker.session.timeout.ms": 60_000}) as cluster:
        yield cluster


def run(cluster: TestCluster, *arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, [*arguments, "--bootstrap", cluster.bootstrap])
    assert done.exit_code == code, done.output
    return done.output


def described(cluster: TestCluster) -> dict:
    return json.loads(run(cluster, "cluster", "describe", "--json"))


def replicas(cluster: TestCluster, topic: str) -> list[list[int]]:
    [found] = json.loads(run(cluster, "topics", "describe", topic, "--json"))
    return [part["replicas"] for part in found["partitions"]]


@pytest.mark.timeout(180)
def test_partitions_move_and_leaders_are_elected(nodes: TestCluster):
    run(nodes, "topics", "create", "moved", "-p", "4", "-r", "2")
    assert "partitions moved" in run(nodes, "cluster", "drain", "3")
    assert all(sorted(each) == [1, 2] for each in replicas(nodes, "moved"))
    state = described(nodes)
    assert state["voters"] == [1, 2, 3]
    assert state["without_leader"] == state["under_replicated"] == 0
    assert next(broker for broker in state["brokers"] if broker["broker"] == 3)["replicas"] == 0
    assert "nothing has to move" in run(nodes, "cluster", "drain", "3")
    assert "moved" in run(nodes, "cluster", "reassign", "moved", "--brokers", "2,3")
    assert all(sorted(each) == [2, 3] for each in replicas(nodes, "moved"))
    run(nodes, "cluster", "elect", "moved")
    leads = {broker["broker"]: broker["leads"] for broker in described(nodes)["brokers"]}
    assert leads == {1: 0, 2: 2, 3: 2}
    assert "0 reassignments cancelled" in run(nodes, "cluster", "reassign", "moved", "--cancel")


@pytest.mark.timeout(180)
def test_a_broker_that_holds_nothing_is_given_its_share(nodes: TestCluster):
    run(nodes, "topics", "create", "grown", "-p", "6", "-r", "1")
    run(nodes, "cluster", "drain", "2")
    before = {broker["broker"]: broker["replicas"] for broker in described(nodes)["brokers"]}
    assert before[2] == 0
    assert "moved" in run(nodes, "cluster", "add", "2")
    after = {broker["broker"]: broker["replicas"] for broker in described(nodes)["brokers"]}
    assert after[2] == sum(before.values()) // 3
    assert "nothing has to move" in run(nodes, "cluster", "add", "2")
    run(nodes, "topics", "delete", "grown", "--yes")


@pytest.mark.timeout(180)
def test_a_throttle_is_set_and_taken_back(nodes: TestCluster):
    run(nodes, "topics", "create", "slow", "-p", "2", "-r", "2")
    run(nodes, "cluster", "reassign", "slow", "--brokers", "1,2")
    moving = run(nodes, "cluster", "reassign", "slow", "--brokers", "2,3", "--throttle", "5000", "--no-wait")
    assert "the throttle stays until" in moving
    limited = {LEADERS: "0:1,0:2,1:1,1:2", FOLLOWERS: "0:3,1:3", RATES[0]: "5000", RATES[1]: "5000"}
    assert throttles(nodes, "slow") == limited
    run(nodes, "cluster", "reassign", "slow", "--cancel")
    assert not throttles(nodes, "slow")
    assert "moved" in run(nodes, "cluster", "reassign", "slow", "--brokers", "1,3", "--throttle", "5000")
    assert not throttles(nodes, "slow")
    run(nodes, "topics", "delete", "slow", "--yes")


def fill_one_replica(cluster: TestCluster, topic: str) -> None:
    """Creates a topic on node 1 with more bytes than one fetch returns: throttled, its move does not end by itself."""
    run(cluster, "topics", "create", topic, "-p", "1", "-r", "1")
    run(cluster, "cluster", "reassign", topic, "--brokers", "1")
    for _ in range(3):
        lines = "\n".join(["x" * 90_000] * 30)
        done = CliRunner().invoke(cli, ["produce", topic, "--bootstrap", cluster.bootstrap], input=lines)
        assert done.exit_code == 0, done.output


@pytest.mark.timeout(180)
def test_a_throttle_stays_after_an_interrupt_until_the_reassignment_is_cancelled(nodes: TestCluster):
    fill_one_replica(nodes, "kept")
    command = [sys.executable, "-m", "odradek", "cluster", "reassign", "kept", "--brokers", "2", "--throttle", "1"]
    moving = subprocess.Popen([*command, "--bootstrap", nodes.bootstrap], stderr=subprocess.PIPE, text=True)
    while not described(nodes)["reassignments"]:
        assert moving.poll() is None
    moving.send_signal(signal.SIGINT)
    _, said = moving.communicate(timeout=60)
    assert moving.returncode == INTERRUPTED
    assert "the throttle stays until odradek cluster reassign --cancel" in said
    assert throttles(nodes, "kept")
    run(nodes, "cluster", "reassign", "kept", "--cancel")
    assert not throttles(nodes, "kept")
    run(nodes, "topics", "delete", "kept", "--yes")


@pytest.mark.timeout(180)
def test_a_throttle_stays_after_an_interrupt_before_the_response(nodes: TestCluster, monkeypatch: pytest.MonkeyPatch):
    """The controller has received the request by then."""
    fill_one_replica(nodes, "sent")
    alter = KafkaAdminClient.alter_partition_reassignments

    def interrupted(admin: KafkaAdminClient, wanted: dict) -> None:
        alter(admin, wanted)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KafkaAdminClient, "alter_partition_reassignments", interrupted)
        said = run(nodes, "cluster", "reassign", "sent", "--brokers", "2", "--throttle", "1", code=INTERRUPTED)
    assert "the throttle stays until odradek cluster reassign --cancel" in said
    assert throttles(nodes, "sent")
    run(nodes, "cluster", "reassign", "sent", "--cancel")
    assert not throttles(nodes, "sent")
    run(nodes, "topics", "delete", "sent", "--yes")


def test_a_throttle_that_cannot_be_removed_is_named():
    """Only a broker itself changes its configs."""

    def alter(resources: Sequence[Any], *, raise_on_unknown: bool) -> dict[str, dict[str, str]]:
        assert not raise_on_unknown
        [resource] = resources
        if resource.name == "3":
            raise NodeNotReadyError(3)
        kind = resource.resource_type.name.lower()
        return {kind: {resource.name: "OK" if kind == "broker" else "[Error 41] NotControllerError"}}

    left = remove_throttle(cast("Admin", SimpleNamespace(alter_configs=alter)), [("slow", 0), ("slow", 1)], [2, 3])
    unset = f"odradek configs alter topic slow --unset {LEADERS} --unset {FOLLOWERS}"
    assert left[0].startswith("the throttle stays, topic 'slow': NOT_CONTROLLER: ")
    assert left[0].endswith(f"; later: {unset}")
    assert left[1].startswith("the throttle stays, broker '3': broker 3 does not answer; later: ")
    assert len(left) == 2


@contextmanager
def isolated(nodes: TestCluster, broker: int) -> Iterator[None]:
    """Its links are restored after a second: a request that it forwards to the controller is only late."""
    nodes.isolate(broker)
    healing = threading.Timer(1, nodes.heal)
    healing.start()
    try:
        yield
    finally:
        healing.join()


def shown_by(nodes: TestCluster, broker: int, topic: str) -> ErrorCode:
    with RawClient((nodes.host, nodes.node(broker).plan.port)) as client:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        return ErrorCode(client.call(request, 12).topics[0].error_code)


@pytest.mark.timeout(180)
def test_topics_are_made_and_deleted_on_every_broker(nodes: TestCluster, monkeypatch: pytest.MonkeyPatch):
    behind = next(each for each in nodes.ids if each != nodes.controller())
    monkeypatch.setattr(propagation, "LIMIT_S", 60.0)
    with isolated(nodes, behind):
        assert "do not show" not in run(nodes, "topics", "create", "waited", "-r", "1")
        assert shown_by(nodes, behind, "waited") is ErrorCode.NONE
    with isolated(nodes, behind):
        run(nodes, "topics", "delete", "waited", "--yes")
        assert shown_by(nodes, behind, "waited") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("exist", [True, False])
def test_brokers_that_are_late_are_named(
    exist: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    codes = {1: ErrorCode.NONE if exist else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 2: None}
    codes[3] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if exist else ErrorCode.NONE

    def answer(_send: object, _request: object, node: int | None, _timeout_ms: int | None) -> SimpleNamespace:
        code = codes[node or 1]
        if code is None:
            raise NodeNotReadyError(node)
        return SimpleNamespace(
            brokers=[SimpleNamespace(node_id=each) for each in codes], topics=[SimpleNamespace(error_code=code)]
        )

    monkeypatch.setattr(propagation, "LIMIT_S", 0.0)
    admin = SimpleNamespace(_manager=SimpleNamespace(send=None, run=answer))
    propagation.await_topics(cast("Admin", admin), ["late"], exist=exist)
    assert capsys.readouterr().err == "brokers that do not show this yet: 3\n"


NAMES = (*RATES, LEADERS, FOLLOWERS)


def throttles(cluster: TestCluster, topic: str) -> dict[str, str]:
    """The throttle settings of a topic and of a broker that takes part."""
    found: dict[str, str] = {}
    for kind, name in (("topic", topic), ("broker", "2")):
        [shown] = json.loads(run(cluster, "configs", "describe", kind, name, "--json"))
        found |= {each: entry["value"] for each, entry in shown["configs"].items() if each in NAMES}
    return {name: ",".join(sorted(value.split(","))) for name, value in found.items() if value}


def test_the_replicas_that_a_throttle_names():
    held = {("a", 0): [1, 2], ("a", 1): [2, 3], ("b", 0): [1]}
    plan = {("a", 0): [2, 3], ("a", 1): [2, 4], ("b", 0): [1, 2]}
    assert throttled_replicas(held, plan) == {
        "a": {LEADERS: "0:1,0:2,1:2,1:3", FOLLOWERS: "0:3,1:4"},
        "b": {LEADERS: "0:1", FOLLOWERS: "0:2"},
    }
    assert brokers_of(held, plan) == [1, 2, 3, 4]


def test_too_few_brokers_are_named(nodes: TestCluster):
    run(nodes, "topics", "create", "wide", "-p", "1", "-r", "3")
    refused = run(nodes, "cluster", "drain", "1", code=1)
    assert "wide-0 has 3 replicas, and 2 brokers are left to hold them" in refused
    run(nodes, "topics", "delete", "wide", "--yes")


def test_a_change_that_no_broker_confirms_is_done_all_the_same(capsys: pytest.CaptureFixture[str]):
    def refuse(*_request: object) -> None:
        raise NodeNotReadyError("none")

    admin = SimpleNamespace(_manager=SimpleNamespace(send=None, run=refuse))
    propagation.await_topics(cast("Admin", admin), ["made"], exist=True)
    assert not capsys.readouterr().err


def random_layout(chance: random.Random) -> tuple[dict[tuple[str, int], list[int]], dict[int, str | None]]:
    brokers = {number: chance.choice([None, "a", "b"]) for number in range(1, chance.randrange(5, 9))}
    factor = chance.randrange(1, 4)
    held = {("t", index): chance.sample(sorted(brokers), factor) for index in range(chance.randrange(1, 30))}
    return held, brokers


@pytest.mark.parametrize("seed", range(30))
def test_a_drained_broker_holds_nothing_and_the_rest_stays(seed: int):
    held, brokers = random_layout(random.Random(seed))
    leaving = {1}
    for partition, after in without(held, leaving, brokers).items():
        before = held[partition]
        assert len(set(after)) == len(before)
        assert not leaving.intersection(after)
        assert all(new == old for new, old in zip(after, before, strict=True) if old not in leaving)
        assert set(before) & leaving


def test_a_rack_of_its_own_is_preferred():
    held = {("t", 0): [1, 2]}
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "b", 4: "c"}
    assert without(held, [1], racks) == {("t", 0): [4, 2]}


@pytest.mark.parametrize("seed", range(30))
def test_replicas_are_spread_evenly(seed: int):
    held, brokers = random_layout(random.Random(seed))
    plan = over(held, sorted(brokers), brokers)
    after = {**held, **plan}
    leads = Counter(each[0] for each in after.values())
    counts = [leads[broker] for broker in brokers]
    assert max(counts) - min(counts) <= 1
    assert over(after, sorted(brokers), brokers) == {}


@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_replicas_are_spread_over_racks(factor: int):
    """As by Kafka's `kafka-reassign-partitions --generate`, brokers take turns by rack."""
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    held = {("t", index): [9] * factor for index in range(12)}
    plan = over(held, sorted(racks), racks)
    assert [replicas[0] for replicas in plan.values()] == [1, 3, 5, 2, 4, 6] * 2
    for replicas in plan.values():
        assert len({racks[broker] for broker in replicas}) == min(factor, 3)
    load = Counter(chain.from_iterable(plan.values())).values()
    assert max(load) - min(load) <= 2


def test_replicas_are_spread_over_racks_of_different_sizes():
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: None}
    plan = over({("t", index): [9, 9] for index in range(4)}, [1, 2, 3, 4], racks)
    assert list(plan.values()) == [[1, 3], [3, 4], [4, 2], [2, 3]]


@pytest.mark.parametrize("seed", range(30))
def test_a_broker_that_joins_takes_its_share_and_the_rest_stays(seed: int):
    chance = random.Random(seed)
    brokers: dict[int, str | None] = dict.fromkeys(range(1, chance.randrange(4, 9)))
    partitions = [("t", index) for index in range(chance.randrange(1, 40))]
    factor = chance.randrange(1, len(brokers) - 1)
    held = over(dict.fromkeys(partitions, [0] * factor), sorted(brokers)[:-1], brokers)
    newcomer = max(brokers)
    after = {**held, **onto(held, [newcomer], brokers)}
    load = Counter(broker for each in after.values() for broker in each)
    leads = Counter(each[0] for each in after.values())
    share = sum(load.values()) // len(brokers)
    assert load[newcomer] == share
    assert min(load[broker] for broker in brokers) >= min(share, *Counter(chain.from_iterable(held.values())).values())
    assert leads[newcomer] <= len(held) // len(brokers)
    for partition, replicas in after.items():
        assert len(set(replicas)) == factor
        assert all(new in (old, newcomer) for new, old in zip(replicas, held[partition], strict=True))
    assert onto(after, [newcomer], brokers) == {}


def test_a_broker_that_joins_shares_no_rack_of_a_partition():
    held = {("t", 0): [1, 2], ("t", 1): [2, 1], ("t", 2): [1, 2]}
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "a"}
    after = {**held, **onto(held, [3], racks)}
    assert sum(3 in each for each in after.values()) == 1  # broker 1, the only other source, has no more than its share
    assert all({racks[broker] for broker in each} == {"a", "b"} for each in after.values())


def test_more_replicas_than_brokers_are_refused():
    with pytest.raises(TooFewBrokersError, match="t-0 has 2 replicas, and 1 brokers"):
        over({("t", 0): [1, 2]}, [3], {})
