"""One scrape: collects all metrics of a broker, in the endpoint's thread."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from odradek.gateway.assembly import Services
from odradek.gateway.metrics.families import counters, gauge, gauges, quantiles
from odradek.gateway.metrics.groups import group_metrics
from odradek.gateway.metrics.partitions import partition_metrics
from odradek.gateway.metrics.raft import ElectionTimes, raft_metrics
from odradek.gateway.metrics.replication import replication_metrics
from odradek.gateway.metrics.windows import Windows
from odradek.gateway.replication.traffic import TopicTraffic
from odradek.wire.api_keys import ApiKey

TOPIC_COUNTERS: Final[Mapping[str, tuple[str, Callable[[TopicTraffic], int]]]] = {
    "messagesin": ("Records that were appended.", lambda traffic: traffic.messages_in),
    "bytesin": ("Bytes of the batches that were appended.", lambda traffic: traffic.bytes_in),
    "bytesout": ("Bytes of the batches that clients were sent.", lambda traffic: traffic.bytes_out),
    "totalproducerequests": ("Appends that clients asked for.", lambda traffic: traffic.produces),
    "failedproducerequests": ("Appends that failed unexpectedly.", lambda traffic: traffic.failed_produces),
    "totalfetchrequests": ("Reads that clients asked for.", lambda traffic: traffic.fetches),
    "failedfetchrequests": ("Reads that failed unexpectedly.", lambda traffic: traffic.failed_fetches),
}
"""Kafka's BrokerTopicMetrics by the end of the name, with the value for a topic."""


class BrokerCollector(Collector):
    """The source of a broker's metrics for Prometheus' client; called by one thread at a time."""

    def __init__(self, services: Services, elections: ElectionTimes) -> None:
        self._services = services
        self._elections = elections
        self._windows = Windows()

    def collect(self) -> Iterator[Metric]:
        """All metric families of one scrape."""
        services = self._services
        image = services.metadata.image
        now_s = services.request_times.now_us() / 1e6
        yield from self._requests(now_s)
        yield from self._commits(now_s)
        yield from self._topics()
        yield from partition_metrics(services, image)
        yield from replication_metrics(services)
        yield from raft_metrics(services, self._elections)
        yield from group_metrics(services)
        yield from self._loop()

    def _requests(self, now_s: float) -> Iterator[Metric]:
        times = self._services.request_times
        yield counters(
            "kafka_network_requestmetrics_requests",
            "Answered requests.",
            ("request", "version"),
            [((_name(request), str(version)), count) for (request, version), count in list(times.by_version.items())],
        )
        yield quantiles(
            "kafka_network_requestmetrics_totaltimems",
            "Milliseconds from a request's decoding to its reply; quantiles of about the last minute.",
            ("request",),
            [
                (
                    (_name(request),),
                    sum(durations.counts),
                    durations.total_us / 1000,
                    self._windows.quantiles_ms(request, durations, now_s),
                )
                for request, durations in list(times.by_api.items())
            ],
        )
        memory = self._services.request_memory.taken_bytes
        yield gauge("odradek_request_memory_bytes", "Bytes of the requests being received or handled.", memory)

    def _commits(self, now_s: float) -> Iterator[Metric]:
        times = self._services.replicas.commit_times
        by_quantile = self._windows.quantiles_ms("commit", times, now_s)
        yield quantiles(
            "kafka_log_logflushstats_logflushrateandtimems",
            "Milliseconds of a commit of a log, sync included; quantiles of about the last minute.",
            (),
            [((), sum(times.counts), times.total_us / 1000, by_quantile)],
        )
        pending = self._services.replicas.backlog.size_bytes
        yield gauge("odradek_commit_pending_bytes", "Bytes that wait for a commit or are being committed.", pending)

    def _topics(self) -> Iterator[Metric]:
        counts = self._services.replicas.traffic.counts
        topics = sorted(counts.topics.items())
        for end, (doc, number) in TOPIC_COUNTERS.items():
            name = f"kafka_server_brokertopicmetrics_{end}"
            family = counters(name, doc, ("topic",), [((topic,), number(traffic)) for topic, traffic in topics])
            # Kafka has the sum of all topics, deleted ones included, under the same name without the topic label.
            total = sum([number(traffic) for _, traffic in topics], number(counts.deleted))
            family.add_sample(f"{name}_total", {}, total)
            yield family

    def _loop(self) -> Iterator[Metric]:
        loop = self._services.loop
        doc = "Turns of the event loop that took odradek.loop.stall.warn.ms or longer."
        yield counters("odradek_loop_stalls", doc, (), [((), loop.long_turns)])
        yield gauge("odradek_loop_longest_stall_ms", "The longest of them in milliseconds.", loop.longest_ms)
        yield gauges(
            "odradek_info",
            "Always 1; which cluster and node this is.",
            ("cluster_id", "node_id"),
            [((self._services.cluster_id, str(self._services.config.node_id)), 1)],
        )


def _name(request: ApiKey | str) -> str:
    """`API_VERSIONS` as Kafka writes it: ApiVersions."""
    if isinstance(request, str):
        return request
    return "".join([part.capitalize() for part in request.name.split("_")])
