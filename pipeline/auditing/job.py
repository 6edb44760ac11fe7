"""The audit of one topic."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from odradek.gateway.cli.output import Meter
from odradek.gateway.cli.output import meter as silent_meter
from odradek.pipeline.auditing.compare import Difference, compare
from odradek.pipeline.auditing.facts import PartitionFacts
from odradek.pipeline.auditing.page import page
from odradek.pipeline.auditing.records import ArchiveSource, DirectorySource, Source, TopicSource
from odradek.pipeline.auditing.result import AuditResult, Lag
from odradek.pipeline.auditing.samples import Placement, Samples
from odradek.pipeline.auditing.scan import Advance, ends_of, scan
from odradek.pipeline.cluster import Cluster
from odradek.pipeline.connection import Connection
from odradek.pipeline.progress import OpenMeter
from odradek.pipeline.report import PartitionReport, Report
from odradek.pipeline.topic_partition import TopicPartition
from odradek.pipeline.wire_client import WireClient
from odradek.pipeline.wire_groups import WireGroups


def audit(
    connection: Connection,
    topic: str,
    *,
    archive: str | None = None,
    data: str | None = None,
    against: tuple[Connection, str] | None = None,
    html: str | Path | None = None,
    meter: OpenMeter | None = None,
) -> Report:
    """Read a whole topic, explain every offset, and compare it record by record with other copies.

    `archive` is a table of the topic, `data` a broker's data directory, `against` another cluster and the topic's name
    there. `html` is the path of a page to write. `meter` opens a progress line, given the offsets to read. The report
    is incomplete if something is unexplained or different: missing offsets, repeated or skipped sequences of producers,
    decreasing epochs, damaged batches, different records. Raises PipelineError.
    """
    with ExitStack() as stack:
        client = stack.enter_context(WireClient(connection))
        ends = ends_of(client, _places(client, topic))
        is_compacted = _is_compacted(connection, topic)
        first = TopicSource(client, topic, connection.bootstrap, is_compacted=is_compacted)
        others: list[Source] = []
        if archive is not None:
            others.append(ArchiveSource(archive, topic))
        if data is not None:
            others.append(DirectorySource(data, topic, is_compacted=is_compacted))
        if against is not None:
            other = stack.enter_context(WireClient(against[0]))
            other.topic(against[1])  # raises PipelineError if the topic does not exist
            compacted = _is_compacted(*against)
            others.append(TopicSource(other, against[1], against[0].bootstrap, is_compacted=compacted))
        offsets = sum(high - start for start, high in ends.values())
        with (meter or _silent)(offsets * (1 + len(others))) as bar:
            result = _scan(connection, client, topic, ends, is_compacted, bar.advance)
            for source in others:
                result.compared[source.name] = _compare(first, source, bar.advance)
                result.damages += source.damages
    if html is not None:
        Path(html).write_text(page(result), encoding="utf-8")
    return _report(result)


def _places(client: WireClient, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(len(client.topic(topic).leaders))]


def _is_compacted(connection: Connection, topic: str) -> bool:
    with Cluster(connection) as cluster:
        return cluster.is_compacted(topic)


def _scan(
    connection: Connection,
    client: WireClient,
    topic: str,
    ends: Mapping[TopicPartition, tuple[int, int]],
    is_compacted: bool,
    advance: Advance,
) -> AuditResult:
    samples, partitions = Samples(), list[PartitionFacts]()
    placement = Placement(len(ends))
    for place, (start, high) in ends.items():
        facts = PartitionFacts(place.partition, start, high, is_compacted)
        scan(client, facts, place, samples, placement, advance)
        partitions.append(facts)
    return AuditResult(topic, connection.bootstrap, partitions, samples, _lags(client, list(ends), partitions))


def _silent(_offsets: int) -> AbstractContextManager[Meter]:
    return silent_meter("", None, shown=False)


def _lags(client: WireClient, places: Sequence[TopicPartition], partitions: Sequence[PartitionFacts]) -> list[Lag]:
    groups = WireGroups(client)
    ends = {place: facts.end_offset for place, facts in zip(places, partitions, strict=True)}
    found: list[Lag] = []
    for group in sorted(groups.states()):
        committed = {place: offset for place, offset in groups.committed(group).items() if place in ends}
        if committed:
            lag = sum(max(0, ends[place] - offset) for place, offset in committed.items())
            found.append(Lag(group, len(committed), lag))
    return found


def _compare(first: Source, other: Source, advance: Advance) -> list[Difference]:
    both = sorted({*first.partitions(), *other.partitions()})
    return [compare(first, other, partition, advance) for partition in both]


def _report(result: AuditResult) -> Report:
    report = Report("audit", details=result.as_json())
    for facts in result.partitions:
        report.partitions.append(
            PartitionReport(
                result.topic,
                facts.partition,
                facts.start_offset,
                facts.end_offset,
                read=facts.records,
                written=facts.committed,
                skipped=+facts.gaps,
            )
        )
        for kind, count in sorted(facts.problems.items()):
            examples = "; ".join(facts.examples.get(kind, ()))
            report.incomplete(f"{result.topic}-{facts.partition}: {kind}: {count:,} ({examples})")
    for name, differences in result.compared.items():
        _report_comparison(report, name, differences)
    for line in result.damages:
        report.incomplete(line)
    report.notes += result.remarks()
    return report


def _report_comparison(report: Report, name: str, differences: Sequence[Difference]) -> None:
    for each in differences:
        if each.is_identical:
            continue
        parts = [f"{each.missing:,} missing", f"{each.extra:,} extra", f"{each.different:,} different"]
        parts += [f"offsets {first} to {end - 1} are not there" for first, end in each.only_first]
        parts += [f"offsets {first} to {end - 1} are there alone" for first, end in each.only_other]
        examples = f" ({'; '.join(each.examples)})" if each.examples else ""
        report.incomplete(f"{name}, partition {each.partition}: {', '.join(parts)}{examples}")
    if older := sum(end - start for each in differences for start, end in each.older):
        report.notes.append(f"{name}: still has {older:,} offsets from before the topic's log start (retention)")
    if compacted := sum(each.compacted for each in differences):
        report.notes.append(
            f"{name}: {compacted:,} records are on one side alone since the other's compaction took them"
        )
    if all(each.is_identical for each in differences):
        report.notes.append(f"{name}: identical, {sum(each.same for each in differences):,} records compared")
