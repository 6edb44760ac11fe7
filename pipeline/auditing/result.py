"""All that an audit has found, for the table, the JSON form and the page."""

from dataclasses import asdict, dataclass, field
from typing import Any

from odradek.pipeline.auditing.compare import Difference
from odradek.pipeline.auditing.facts import CodecFacts, PartitionFacts
from odradek.pipeline.auditing.samples import Samples


@dataclass(slots=True)
class Lag:
    """How far a group is behind, of the partitions that it has committed offsets of."""

    group: str
    partitions: int
    lag: int


@dataclass(slots=True)
class AuditResult:
    """One topic, audited. `compared` has the differences by the name of the other source."""

    topic: str
    bootstrap: str
    partitions: list[PartitionFacts]
    samples: Samples
    lags: list[Lag]
    compared: dict[str, list[Difference]] = field(default_factory=dict[str, list[Difference]])

    @property
    def is_clean(self) -> bool:
        """Whether everything is explained, and all copies are the same."""
        compared = (each for differences in self.compared.values() for each in differences)
        return not any(facts.problems for facts in self.partitions) and all(each.is_identical for each in compared)

    def codecs(self) -> dict[str, CodecFacts]:
        """The batches of all partitions by codec."""
        found: dict[str, CodecFacts] = {}
        for facts in self.partitions:
            for name, one in facts.codecs.items():
                total = found.setdefault(name, CodecFacts())
                total.batches += one.batches
                total.size_bytes += one.size_bytes
                total.plain_bytes += one.plain_bytes
        return found

    def remarks(self) -> list[str]:
        """What is worth to know and no problem."""
        found: list[str] = []
        alike = self.samples.likeness.alike
        if alike:
            about = "" if self.samples.likeness.is_exact else "about "
            found.append(f"{about}{alike:,} records have the key, value and time of an earlier one")
        regressions = sum(facts.time_regressions for facts in self.partitions)
        if regressions:
            found.append(f"{regressions:,} records are older than one before them in their partition")
        for name, one in sorted(self.codecs().items()):
            ratio = (
                f", {one.plain_bytes / one.size_bytes:.1f} times smaller" if name != "none" and one.size_bytes else ""
            )
            found.append(f"{one.batches:,} batches, {one.size_bytes:,} bytes: {name}{ratio}")
        found += [f"group {each.group}: {each.lag:,} behind in {each.partitions} partitions" for each in self.lags]
        return found

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "topic": self.topic,
            "clean": self.is_clean,
            "facts": [_facts(facts) for facts in self.partitions],
            "codecs": {name: asdict(one) for name, one in self.codecs().items()},
            "top_keys": [[key.decode("utf-8", "replace"), count] for key, count in self.samples.keys.top()],
            "records_without_key": self.samples.keys.without_key,
            "alike": self.samples.likeness.alike,
            "groups": [asdict(each) for each in self.lags],
            "compared": {name: [asdict(each) for each in found] for name, found in self.compared.items()},
        }


def _facts(facts: PartitionFacts) -> dict[str, Any]:
    return {
        "partition": facts.partition,
        "start_offset": facts.start_offset,
        "end_offset": facts.end_offset,
        "batches": facts.batches,
        "records": facts.records,
        "committed": facts.committed,
        "aborted": facts.aborted,
        "open": facts.open_records,
        "first_time_ms": facts.first_time_ms,
        "last_time_ms": facts.last_time_ms,
        "time_regressions": facts.time_regressions,
        "largest_batch_bytes": facts.largest_batch_bytes,
        "gaps": dict(facts.gaps),
        "problems": dict(facts.problems),
        "examples": facts.examples,
    }
