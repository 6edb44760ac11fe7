"""The result of an audit, for the printed table, JSON and the page."""

from dataclasses import asdict, dataclass, field
from typing import Any

from odradek.pipeline.auditing.compare import Difference
from odradek.pipeline.auditing.facts import CodecFacts, PartitionFacts
from odradek.pipeline.auditing.samples import Samples


@dataclass(slots=True)
class Lag:
    """The lag of a group, over the partitions of which it has committed offsets."""

    group: str
    partitions: int
    lag: int


@dataclass(slots=True)
class AuditResult:
    """The result for one topic. `compared` has the differences by the name of the other source."""

    topic: str
    bootstrap: str
    partitions: list[PartitionFacts]
    samples: Samples
    lags: list[Lag]
    compared: dict[str, list[Difference]] = field(default_factory=dict[str, list[Difference]])
    damages: list[str] = field(default_factory=list[str])
    """The parts of the copies that could not be read."""

    @property
    def is_clean(self) -> bool:
        """True if no partition has a problem, and no copy is damaged or has an unexplained difference."""
        compared = (each for differences in self.compared.values() for each in differences)
        explained = not self.damages and not any(facts.problems for facts in self.partitions)
        return explained and all(each.is_identical for each in compared)

    def codecs(self) -> dict[str, CodecFacts]:
        """Return the batches of all partitions by codec."""
        found: dict[str, CodecFacts] = {}
        for facts in self.partitions:
            for name, one in facts.codecs.items():
                total = found.setdefault(name, CodecFacts())
                total.batches += one.batches
                total.size_bytes += one.size_bytes
                total.plain_bytes += one.plain_bytes
        return found

    def remarks(self) -> list[str]:
        """Return remarks that are not problems."""
        found: list[str] = []
        alike = self.samples.likeness.alike
        if alike:
            about = "" if self.samples.likeness.is_exact else "about "
            found.append(f"{about}{alike:,} records have the key, value and time of an earlier one")
        regressions = sum(facts.time_regressions for facts in self.partitions)
        if regressions:
            found.append(f"{regressions:,} records are older than one before them in their partition")
        found += self._placement()
        for name, one in sorted(self.codecs().items()):
            ratio = (
                f", {one.plain_bytes / one.size_bytes:.1f} times smaller" if name != "none" and one.size_bytes else ""
            )
            found.append(f"{one.batches:,} batches, {one.size_bytes:,} bytes: {name}{ratio}")
        found += [f"group {each.group}: {each.lag:,} behind in {each.partitions} partitions" for each in self.lags]
        return found

    def key_shares(self) -> dict[int, float]:
        """Return the share of each partition in the records with a key; empty if there are none."""
        keyed = sum(facts.keyed for facts in self.partitions)
        return {facts.partition: facts.keyed / keyed for facts in self.partitions} if keyed else {}

    def _placement(self) -> list[str]:
        """Return the distribution of keys over partitions. Producers may choose partitions, so none of it is a
        problem.
        """
        found: list[str] = []
        shares = self.key_shares()
        if len(shares) > 1:
            fullest = max(shares, key=lambda partition: shares[partition])
            found.append(
                f"partition {fullest} has {shares[fullest]:.1%} of the records with a key, the most; an even share is "
                f"{1 / len(shares):.1%}"
            )
        if misplaced := sum(facts.misplaced for facts in self.partitions):
            keyed = sum(facts.keyed for facts in self.partitions)
            found.append(
                f"{misplaced:,} of {keyed:,} records with a key are not where Kafka's own partitioner (murmur2) puts "
                "them: another client or the application chose, or the topic had fewer partitions"
            )
        return found

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `--json`."""
        return {
            "topic": self.topic,
            "clean": self.is_clean,
            "facts": [_facts(facts) for facts in self.partitions],
            "codecs": {name: asdict(one) for name, one in self.codecs().items()},
            "top_keys": [[key.decode("utf-8", "replace"), count] for key, count in self.samples.keys.top()],
            "key_shares": self.key_shares(),
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
        "keyed": facts.keyed,
        "misplaced": facts.misplaced,
        "largest_batch_bytes": facts.largest_batch_bytes,
        "gaps": dict(facts.gaps),
        "problems": dict(facts.problems),
        "examples": facts.examples,
    }
