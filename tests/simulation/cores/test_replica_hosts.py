"""Replicas, fetchers, truncation and AlterPartition of production code, under virtual time, crashes and cut links."""

from collections import Counter

import pytest
import trio
import trio.lowlevel
from replica_hosts import TOPIC, TOPIC_ID, Host, Hosts
from replication_controller import IDS

from odradek.gateway.replication import following
from odradek.gateway.replication.following import FollowingLog
from odradek.gateway.testing.simulation import run_virtually
from odradek.partitions.model import PartitionKey
from odradek.wire.errors import ErrorCode
from odradek.wire.records.batch import iter_headers
from odradek.wire.records.builder import SimpleRecord, build_batch
from odradek.wire.records.reader import read_records
from tests.long_form import rounds

CALM_S = 6.0
SHORT, MANY = 3, 200
FOUND = (225, 283)
"""Seeds with which a follower has waited for ever for the answer of a leader that had crashed."""


async def write(hosts: Hosts, producer_id: int, acknowledged: list[bytes]) -> None:
    """Produces numbers in sequence; each is sent until it is acknowledged."""
    sequence = 0
    while True:
        value = f"{producer_id}/{sequence}".encode()
        batch = build_batch(
            [SimpleRecord(b"k", value, hosts.now_ms)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        leader = hosts.leader
        if leader is not None and leader.replicas is not None and await leader.produce(batch) is ErrorCode.NONE:
            acknowledged.append(value)
            sequence += 1
        await trio.sleep(hosts.chance.uniform(0.001, 0.02))


async def hurt(hosts: Hosts, done: Counter[str]) -> None:
    """Crashes hosts and cuts links, one after the other and at once."""
    while trio.current_time() < CALM_S:
        await trio.sleep(hosts.chance.uniform(0.1, 0.7))
        host = hosts.hosts[hosts.chance.choice(IDS)]
        if hosts.chance.random() < 0.5:
            done["crash"] += 1
            await host.crash()
            hosts.nursery.start_soon(restart, hosts, host, hosts.chance.uniform(0.05, 0.8))
        else:
            done["cut"] += 1
            links = {(host.id, other) for other in (*IDS, 0)} | {(other, host.id) for other in (*IDS, 0)}
            hosts.cut |= links
            await trio.sleep(hosts.chance.uniform(0.1, 1.0))
            hosts.cut -= links


async def restart(hosts: Hosts, host: Host, after_s: float) -> None:
    await trio.sleep(after_s)
    if host.scope is None:
        await host.live()


async def look(hosts: Hosts) -> None:
    while True:
        await trio.sleep(0.05)
        hosts.controller.look()


def stored(host: Host) -> list[bytes]:
    """The batches on the host's disk."""
    log = host.hosts.world.disk(host.name).logs[PartitionKey(TOPIC, TOPIC_ID, 0)].live
    found, at, end = [], 0, log.snapshot().log_end_offset
    while at < end:
        for chunk in log.read(at, end, 1 << 20)[0]:
            for header in iter_headers(chunk):
                found.append(bytes(chunk[header.position : header.position + header.size_bytes]))
                at = header.next_offset
    return found


def simulate(seed: int) -> Counter[str]:
    done: Counter[str] = Counter()

    async def main() -> None:
        acknowledged: list[bytes] = []
        async with trio.open_nursery() as nursery:
            hosts = Hosts(seed, nursery)
            for host in hosts.hosts.values():
                nursery.start_soon(lambda host=host: host.live(first=True))
            for task in (write, write):
                nursery.start_soon(task, hosts, len(done) + 1, acknowledged)
                done[f"producers {len(done)}"] += 1
            nursery.start_soon(look, hosts)
            await hurt(hosts, done)
            await trio.sleep(3)
            before = len(acknowledged)
            await trio.sleep(2)
            assert len(acknowledged) > before, "writes are acknowledged when all is well again"
            assert set(hosts.controller.now.isr) == set(IDS), hosts.controller.now
            written = sorted(acknowledged)
            hosts.cut |= {(0, -1)}
            await trio.lowlevel.checkpoint()
            logs = {each: stored(host) for each, host in hosts.hosts.items()}
            least = min(len(each) for each in logs.values())
            assert [each[:least] for each in logs.values()] == [logs[1][:least]] * 3, "bit by bit the same"
            values = Counter(
                record.value
                for data in max(logs.values(), key=len)
                for header in iter_headers(memoryview(data))
                for record in read_records(memoryview(data), header)
            )
            assert [each for each in written if values[each] != 1] == []
            done["acknowledged"] = len(written)
            done["elections"] = hosts.controller.now.leader_epoch
            nursery.cancel_scope.cancel()

    run_virtually(seed, main)
    return done


@pytest.mark.torture
def test_what_was_acknowledged_is_there_once_and_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[int] = []
    cut = following.cut
    monkeypatch.setattr(following, "cut", lambda part, offset: cuts.append(offset) or cut(part, offset))
    done = sum((simulate(seed) for seed in (*range(rounds(SHORT, MANY)), *FOUND)), Counter())
    assert done["acknowledged"] > 300, done
    assert done["elections"] >= 6, done
    assert len(cuts) >= 3


def test_without_truncation_replicas_do_not_come_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    monkeypatch.setattr(FollowingLog, "truncate", nothing)
    with pytest.raises(BaseExceptionGroup) as failed:
        [simulate(seed) for seed in range(SHORT)]
    assert failed.group_contains(AssertionError)
