"""Metrics of this broker's replication: the lag of its followers, and the replicated bytes."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from odradek.gateway.assembly import Services
from odradek.gateway.metrics.families import counters, gauges

_LABELS = ("clientId", "topic", "partition")


def replication_metrics(services: Services) -> Iterator[Metric]:
    """Lags as Kafka's fetchers report them, from the last response of each leader; bytes since the start."""
    lags = services.replication.lags()
    name = "kafka_server_replicafetchermanager_maxlag"
    longest = max([lag for *_, lag in lags], default=0)
    yield gauges(name, "Offsets that the slowest follower here is behind.", ("clientId",), [(("Replica",), longest)])
    samples = [
        ((f"ReplicaFetcherThread-{number}-{leader}", topic, str(index)), lag)
        for leader, number, topic, index, lag in lags
    ]
    name = "kafka_server_fetcherlagmetrics_consumerlag"
    yield gauges(name, "Offsets that each follower here is behind the leader's high watermark.", _LABELS, samples)
    traffic, topics = services.replicas.traffic, "kafka_server_brokertopicmetrics_replicationbytes"
    yield counters(f"{topics}in", "Bytes fetched from leaders.", (), [((), traffic.replicated_in_bytes)])
    yield counters(f"{topics}out", "Bytes given to followers.", (), [((), traffic.replicated_out_bytes)])
