"""Metrics of this broker's partitions: counts like those of Kafka's ReplicaManager and controller, log offsets."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import Metric

from odradek.coordinator.configs.definition import ResourceType
from odradek.coordinator.metadata.image.image import NO_LEADER, MetadataImage, PartitionImage
from odradek.gateway.assembly import Services
from odradek.gateway.metrics.families import counted, counters, gauge, gauges

_LABELS = ("topic", "partition")


class Counts(NamedTuple):
    """The number of an image's partitions in each condition, as seen from one broker."""

    here: int = 0
    led: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    offline: int = 0
    not_preferred: int = 0
    reassigning: int = 0


def counts(image: MetadataImage, node_id: int, default_min_isr: int) -> Counts:
    """Count the partitions. As in Kafka, those with too few in-sync replicas are counted by their leader only."""
    here = led = under = under_min = at_min = offline = not_preferred = reassigning = 0
    for topic in image.topics_by_name.values():
        configs: Mapping[str, str] = image.configs.get((ResourceType.TOPIC, topic.name), {})
        min_isr = int(configs.get("min.insync.replicas", default_min_isr))
        for partition in topic.partitions:
            here += node_id in partition.replicas
            offline += partition.leader == NO_LEADER
            not_preferred += partition.leader not in (NO_LEADER, partition.replicas[0])
            if partition.leader == node_id:
                led += 1
                reassigning += bool(partition.adding_replicas or partition.removing_replicas)
                wanted = min(min_isr, len(partition.replicas))
                under += _is_under_replicated(partition)
                under_min += len(partition.isr) < wanted
                at_min += len(partition.isr) == wanted
    return Counts(here, led, under, under_min, at_min, offline, not_preferred, reassigning)


def _is_under_replicated(partition: PartitionImage) -> bool:
    wanted = set(partition.replicas) - set(partition.adding_replicas)
    return not wanted <= set(partition.isr)


def partition_metrics(services: Services, image: MetadataImage) -> Iterator[Metric]:
    """Counts of partitions, and the offsets of open logs."""
    config = services.config
    found = counts(image, config.node_id, int(str(config.layers.values["min.insync.replicas"])))
    manager = "kafka_server_replicamanager_"
    yield gauge(f"{manager}partitioncount", "Partitions of which this broker has a replica.", found.here)
    yield gauge(f"{manager}leadercount", "Partitions that this broker leads.", found.led)
    yield gauge(
        f"{manager}underreplicatedpartitions", "Led partitions with replicas out of sync.", found.under_replicated
    )
    yield gauge(f"{manager}underminisrpartitioncount", "Led partitions under min.insync.replicas.", found.under_min_isr)
    yield gauge(f"{manager}atminisrpartitioncount", "Led partitions at min.insync.replicas.", found.at_min_isr)
    offline = sum([replica.is_failing for replica in services.replicas.opened()])
    doc = "Replicas of this broker whose log could not be opened, or not be written, at the last attempt."
    yield gauge(f"{manager}offlinereplicacount", doc, offline)
    yield gauge(f"{manager}reassigningpartitions", "Led partitions that are being reassigned.", found.reassigning)
    yield from _isr_changes(services)
    yield from _controller(image, found)
    yield from _elections(services)
    yield from _logs(services)


def _isr_changes(services: Services) -> Iterator[Metric]:
    manager, changes = "kafka_server_replicamanager_", services.replicas.isr_changes
    shrinks = "In-sync replicas that were fewer then, at the proposal of a leader here."
    yield counters(f"{manager}isrshrinks", shrinks, (), [((), changes.shrinks)])
    expands = "In-sync replicas that were more then, at the proposal of a leader here."
    yield counters(f"{manager}isrexpands", expands, (), [((), changes.expands)])
    failed = "Proposals of in-sync replicas that the controller refused."
    yield counters(f"{manager}failedisrupdates", failed, (), [((), changes.failed)])


def _controller(image: MetadataImage, found: Counts) -> Iterator[Metric]:
    controller = "kafka_controller_kafkacontroller_"
    brokers = image.brokers.values()
    yield gauge(f"{controller}offlinepartitionscount", "Partitions without a leader.", found.offline)
    yield gauge(
        f"{controller}preferredreplicaimbalancecount", "Partitions led by another replica.", found.not_preferred
    )
    yield gauge(f"{controller}globaltopiccount", "Topics of the cluster.", len(image.topics_by_name))
    yield gauge(f"{controller}globalpartitioncount", "Partitions of the cluster.", image.partition_count)
    active = sum([not broker.fenced for broker in brokers])
    yield gauge(f"{controller}activebrokercount", "Registered brokers that serve clients.", active)
    yield gauge(f"{controller}fencedbrokercount", "Registered brokers that serve no clients.", len(brokers) - active)


def _elections(services: Services) -> Iterator[Metric]:
    stats, elections = "kafka_controller_controllerstats_", services.metadata.elections
    active = services.leadership.is_active
    name = "kafka_controller_kafkacontroller_activecontrollercount"
    yield gauge(name, "1 on the active controller, 0 elsewhere.", active)
    yield counted(f"{stats}leaderelectionrateandtimems", "Leaders that were elected.", elections.leaders)
    unclean = "Leaders that were elected although they may lack committed records."
    yield counters(f"{stats}uncleanleaderelections", unclean, (), [((), elections.unclean)])
    eligible = "Leaders that were elected from the eligible leader replicas."
    yield counters(f"{stats}electionfromeligibleleaderreplicas", eligible, (), [((), elections.eligible)])


def _logs(services: Services) -> Iterator[Metric]:
    ends: list[tuple[tuple[str, str], float]] = []
    starts: list[tuple[tuple[str, str], float]] = []
    committed: list[tuple[tuple[str, str], float]] = []
    for replica in services.replicas.opened():
        log = replica.open_log
        if log is not None:
            labels = (replica.key.topic, str(replica.key.index))
            ends.append((labels, log.log_end_offset))
            starts.append((labels, log.log_start_offset))
            if replica.follower is None:  # kafka_exporter has one value for a partition: the leader's
                committed.append((labels, log.high_watermark))
    yield gauges("kafka_log_log_logendoffset", "Log end offset of each open log.", _LABELS, ends)
    yield gauges("kafka_log_log_logstartoffset", "Log start offset of each open log.", _LABELS, starts)
    yield gauges(
        "kafka_topic_partition_current_offset", "High watermark of each open log that is led here.", _LABELS, committed
    )
