"""The metrics endpoint of a real broker: the values that Prometheus reads match the clients' requests."""

import errno
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from damages import zero
from gateway_brokers import ProcessBroker, environment, free_port
from gateway_client import RawClient, batch_of, produce_request
from prometheus_client.parser import text_string_to_metric_families

from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.fetch import FetchRequest, ReplicaState
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest
from odradek.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

Metrics = Callable[..., float | None]


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def scrape(port: int) -> Metrics:
    status, text = get(port, "/metrics")
    assert status == 200
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float | None:
        return samples.get((name, tuple(sorted(labels.items()))))

    return value


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def broker(tmp_path: Path, port: int) -> Iterator[ProcessBroker]:
    with ProcessBroker(tmp_path / "data", "--metrics", f"127.0.0.1:{port}") as broker:
        yield broker


def test_what_clients_did_is_counted(broker: ProcessBroker, port: int):
    before = scrape(port)
    assert before("kafka_server_brokertopicmetrics_messagesin_total") == 0
    batch = batch_of(b"one", b"two", b"three")
    with RawClient(broker.address) as client:
        client.create_topic("t", partitions=2)
        for _ in range(4):
            client.call(produce_request("t", batch))
        client.call(produce_request("t", b"not a batch" * 10))
        client.call(produce_request("t", batch_of(b"without a sequence", producer_id=7, producer_epoch=0)))
        assert client.fetch("t").records
    after = scrape(port)
    topic = "kafka_server_brokertopicmetrics_"
    assert after(f"{topic}messagesin_total", topic="t") == 12
    assert after(f"{topic}messagesin_total") == 12
    assert after(f"{topic}bytesin_total", topic="t") == 4 * len(batch)
    assert after(f"{topic}totalproducerequests_total", topic="t") == 6
    assert after(f"{topic}failedproducerequests_total", topic="t") == 1
    assert (after(f"{topic}bytesout_total", topic="t") or 0) >= 4 * len(batch)
    times = "kafka_network_requestmetrics_totaltimems"
    assert after(f"{times}_count", request="Produce") == 6
    slowest, median = (after(times, request="Produce", quantile=quantile) for quantile in ("0.999", "0.50"))
    assert slowest is not None
    assert median is not None
    assert slowest >= median > 0
    assert (after("kafka_log_logflushstats_logflushrateandtimems_count") or 0) >= 4
    assert after("kafka_log_log_logendoffset", topic="t", partition="0") == 12


def test_fetches_of_consumers_and_of_followers_are_also_counted_apart(broker: ProcessBroker, port: int):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        for _ in range(2):
            client.fetch("t")
        client.call(FetchRequest(replica_state=ReplicaState(replica_id=2), max_wait_ms=0), 17)
    now = scrape(port)
    kinds = ("Fetch", "FetchConsumer", "FetchFollower")
    assert [now("kafka_network_requestmetrics_totaltimems_count", request=kind) for kind in kinds] == [3, 2, 1]
    assert now("kafka_network_requestmetrics_requests_total", request="FetchFollower", version="17") == 1


def test_the_total_of_all_topics_includes_those_that_were_deleted(broker: ProcessBroker, port: int):
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    with RawClient(broker.address) as client:
        client.create_topic("kept")
        client.call(produce_request("kept", batch_of(b"one")))
        for _ in range(2):
            client.create_topic("t")
            client.call(produce_request("t", batch_of(b"one", b"two")))
            deleted = client.call(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),)), 6)
            assert deleted.responses[0].error_code == 0
    now = scrape(port)
    assert now(name) == 5
    assert now(name, topic="t") is None
    assert now(name, topic="kept") == 1


def test_partitions_and_brokers_are_counted(broker: ProcessBroker, port: int):
    with RawClient(broker.address) as client:
        client.create_topic("t", partitions=3)
    now = scrape(port)
    assert now("kafka_server_replicamanager_leadercount") == 3
    assert now("kafka_server_replicamanager_partitioncount") == 3
    for none in ("underreplicatedpartitions", "underminisrpartitioncount", "offlinereplicacount"):
        assert now(f"kafka_server_replicamanager_{none}") == 0
    assert now("kafka_controller_kafkacontroller_globaltopiccount") == 1
    assert now("kafka_controller_kafkacontroller_activebrokercount") == 1
    assert now("kafka_controller_kafkacontroller_offlinepartitionscount") == 0


def test_the_lag_of_a_group_is_reported(broker: ProcessBroker, port: int):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        client.call(produce_request("t", batch_of(b"one", b"two", b"three")))
        client.call(FindCoordinatorRequest(key="g"), 3)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topic = OffsetCommitRequestTopic(name="t", partitions=(partition,))
        committed = client.call(OffsetCommitRequest(group_id="g", topics=(topic,)), 8)
        assert committed.topics[0].partitions[0].error_code == 0
    labels = {"consumergroup": "g", "topic": "t", "partition": "0"}
    now = scrape(port)
    assert now("kafka_consumergroup_current_offset", **labels) == 1
    assert now("kafka_consumergroup_lag", **labels) == 2
    assert now("kafka_coordinator_group_groupmetadatamanager_numgroups") == 1
    assert now("odradek_groups", protocol="classic", state="Empty") == 1


FAILED = "kafka_server_replicamanager_offlinereplicacount"


def test_a_log_that_cannot_be_written_counts_as_failed_until_a_write_succeeds(tmp_path: Path, port: int, faults):
    arguments = ("--metrics", f"127.0.0.1:{port}", "--set", "odradek.log.retry.backoff.max.ms=50")
    with ProcessBroker(tmp_path / "data", *arguments) as broker, RawClient(broker.address) as client:
        client.create_topic("t")
        assert client.produce("t", batch_of(b"before")).error_code == 0
        assert scrape(port)(FAILED) == 0
        faults.fail("/t-0.", calls=["pwrite"], error=errno.EIO)
        assert client.produce("t", batch_of(b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert scrape(port)(FAILED) == 1
        assert client.values("t") == [b"before"], "it is open again, and is read"
        assert scrape(port)(FAILED) == 1
        faults.lift()
        while client.produce("t", batch_of(b"after")).error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            assert scrape(port)(FAILED) == 1
        assert scrape(port)(FAILED) == 0


def test_a_log_that_was_damaged_before_the_start_counts_as_failed(tmp_path: Path, port: int):
    broker = ProcessBroker(tmp_path / "data", "--metrics", f"127.0.0.1:{port}")
    with broker, RawClient(broker.address) as client:
        client.create_topic("t")
        client.produce("t", batch_of(b"value"))
    [segment] = (tmp_path / "data").glob("t-0.*/*.lmdb")
    zero(segment)
    with broker, RawClient(broker.address) as client:
        assert client.produce("t", batch_of(b"value")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert scrape(port)(FAILED) == 1


def test_health_is_reported(broker: ProcessBroker, port: int):
    assert get(port, "/health/live") == (200, "ok\n")
    assert get(port, "/health/ready") == (200, "ok\n")
    assert get(port, "/elsewhere")[0] == 404


def test_an_ipv6_address_is_given_in_brackets(tmp_path: Path, port: int):
    with (
        ProcessBroker(tmp_path / "data", "--metrics", f"[::1]:{port}"),
        urllib.request.urlopen(f"http://[::1]:{port}/health/live", timeout=30) as answer,
    ):
        assert answer.read() == b"ok\n"


def test_a_port_in_use_is_named(broker: ProcessBroker, port: int, tmp_path: Path):
    other = ProcessBroker(tmp_path / "other", "--metrics", f"127.0.0.1:{port}")
    done = subprocess.run(other.command(), capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert done.returncode == 1
    assert f"cannot serve metrics at 127.0.0.1:{port} (odradek.metrics.listen)" in done.stderr


def test_the_extra_that_is_missing_is_named(tmp_path: Path):
    hidden = "import sys; sys.modules['prometheus_client'] = None; sys.argv[0] = 'odradek'\n"
    command = [sys.executable, "-c", f"{hidden}from odradek.gateway.cli.main import main; main()", "serve"]
    arguments = ["--storage", "memory://", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=60, env=environment(), check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert "pip install 'odradek[metrics]'" in done.stderr


MONITORING = Path(__file__).parents[3] / "docker" / "monitoring"
NAME = re.compile(r"\b(?:kafka|odradek|process)_[a-z_]+\b")


def test_each_alert_is_explained_in_the_documentation():
    alerts = re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yaml").read_text())
    pages = MONITORING.parents[1] / "docs"
    explained = (pages / "operating.md").read_text() + (pages / "cluster.md").read_text()
    assert len(alerts) > 10
    assert [alert for alert in alerts if f"`{alert}`" not in explained] == []


def test_prometheus_takes_the_alert_rules():
    """The rules of one test sum the lag of a group whose coordinator and partitions are on different brokers."""
    if shutil.which("promtool") is None:
        pytest.skip("NO PROMTOOL: install Debian's prometheus")
    rules = Path(__file__).parent / "alert_rules.yaml"
    for command in (["check", "rules", str(MONITORING / "alerts.yaml")], ["test", "rules", str(rules)]):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_board_and_the_alerts_name_metrics_that_there_are(broker: ProcessBroker, port: int):
    with RawClient(broker.address) as client:
        client.create_topic("t")
        client.call(produce_request("t", batch_of(b"one")))
        client.call(FindCoordinatorRequest(key="g"), 3)
    _, text = get(port, "/metrics")
    there = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    there |= {f"{name}_total" for name in there}
    there |= {line.partition("{")[0].split()[0] for line in text.splitlines() if not line.startswith("#")}
    board = json.loads((MONITORING / "grafana_board.json").read_text())
    used = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    used.append((MONITORING / "alerts.yaml").read_text())
    named = {name for expression in used for name in NAME.findall(expression)}
    assert len(named) > 15
    assert named <= there
