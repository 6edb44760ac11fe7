"""The HTML page of an audit: one file without external resources, with charts as inline SVG."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from odradek.pipeline.auditing.result import AuditResult

WIDTH: Final = 720
BAR_PX: Final = 22
HEIGHT: Final = 160
STYLE: Final = """
:root { color-scheme: light dark; --ink: #1f2933; --soft: #62727f; --line: #d8dee4; --bar: #2f6f9f; --bad: #b3261e;
  --good: #2e7d32; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa7b2; --line: #30363d; --bar: #6cb0e0;
  --bad: #ff8a80; --good: #81c784; --paper: #14181c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
.soft { color: var(--soft); } .bad { color: var(--bad); } .good { color: var(--good); }
svg { width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; } svg .bar { fill: var(--bar); }
svg .axis { stroke: var(--line); }
"""


def page(result: AuditResult) -> str:
    """Return the whole page."""
    verdict = (
        '<p class="good"><strong>Everything is explained, and all copies are the same.</strong></p>'
        if result.is_clean
        else '<p class="bad"><strong>Not everything is explained, or copies differ: see below.</strong></p>'
    )
    records = {f"partition {each.partition}": each.records for each in result.partitions}
    codecs = {name: one.size_bytes for name, one in sorted(result.codecs().items())}
    keys = {key.decode("utf-8", "replace"): count for key, count in result.samples.keys.top()}
    parts = [
        f"<h1>{escape(result.topic)}</h1>",
        f'<p class="soft">{escape(result.bootstrap)}: {sum(records.values()):,} records, {len(records)} partitions</p>',
        verdict,
        _problems(result),
        "<h2>Partitions</h2>",
        _partitions(result),
        "<h2>Records by partition</h2>",
        bars(records),
        "<h2>Records by time</h2>",
        _timeline(result),
        "<h2>Bytes by compression</h2>",
        bars(codecs),
        "<h2>Most frequent keys</h2>",
        bars(keys) if keys else '<p class="soft">No record has a key.</p>',
        _comparisons(result),
        "<h2>Remarks</h2>",
        f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in result.remarks())}</ul>",
    ]
    title = escape(f"{result.topic}: audit")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _problems(result: AuditResult) -> str:
    rows = [
        [f"partition {facts.partition}", kind, f"{count:,}", "; ".join(facts.examples.get(kind, ()))]
        for facts in result.partitions
        for kind, count in sorted(facts.problems.items())
    ]
    return f"<h2>Unexplained</h2>{_table(['where', 'what', 'how often', 'examples'], rows)}" if rows else ""


def _partitions(result: AuditResult) -> str:
    shares = result.key_shares()
    rows = [
        [
            str(each.partition),
            f"{each.start_offset:,}",
            f"{each.end_offset:,}",
            f"{each.records:,}",
            f"{each.aborted:,}",
            f"{shares.get(each.partition, 0):.1%}",
            f"{each.misplaced:,}",
            ", ".join(f"{count:,} {reason}" for reason, count in sorted((+each.gaps).items())) or "none",
            _time(each.first_time_ms),
            _time(each.last_time_ms),
        ]
        for each in result.partitions
    ]
    columns = ["partition", "from", "to", "records", "aborted", "share of keys", "elsewhere by murmur2"]
    return _table([*columns, "offsets without a record", "first", "last"], rows)


def _comparisons(result: AuditResult) -> str:
    parts: list[str] = []
    for name, found in result.compared.items():
        rows = [
            [
                str(each.partition),
                f"{each.same:,}",
                f"{each.missing:,}",
                f"{each.extra:,}",
                f"{each.different:,}",
                f"{each.compacted:,}",
                "; ".join(each.examples),
            ]
            for each in found
        ]
        columns = ["partition", "same", "missing", "extra", "different", "compacted", "examples"]
        parts.append(f"<h2>Compared with {escape(name)}</h2>{_table(columns, rows)}")
    return "".join(parts)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def bars(values: dict[str, int]) -> str:
    """Return a bar for each value, with its name before it and the number after it."""
    largest = max(values.values(), default=0) or 1
    lines: list[str] = []
    for index, (name, value) in enumerate(values.items()):
        y = index * BAR_PX
        width = round((WIDTH - 330) * value / largest, 1)
        shown = name if len(name) <= 24 else f"{name[:23]}…"
        lines.append(f'<text x="0" y="{y + 15}">{escape(shown)}</text>')
        lines.append(f'<rect class="bar" x="190" y="{y + 3}" width="{width}" height="{BAR_PX - 7}" rx="2"></rect>')
        lines.append(f'<text x="{196 + width}" y="{y + 15}">{value:,}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {len(values) * BAR_PX + 4}" role="img">{"".join(lines)}</svg>'


def _timeline(result: AuditResult) -> str:
    """Return a chart of records over time, of all partitions together."""
    span_ms = max((each.timeline.span_ms for each in result.partitions), default=1000)
    counts: Counter[int] = Counter()
    for each in result.partitions:
        for bucket, count in each.timeline.counts.items():
            counts[bucket * each.timeline.span_ms // span_ms] += count
    if not counts:
        return '<p class="soft">No record has a time.</p>'
    first, last = min(counts), max(counts)
    step = WIDTH / (last - first + 1)
    largest = max(counts.values())
    bars = "".join(
        f'<rect class="bar" x="{round((bucket - first) * step, 1)}" width="{round(max(step - 1, 1), 1)}" '
        f'y="{round(HEIGHT - HEIGHT * count / largest, 1)}" height="{round(HEIGHT * count / largest, 1)}">'
        f"<title>{_time(bucket * span_ms)}: {count:,}</title></rect>"
        for bucket, count in sorted(counts.items())
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 24}" role="img">{bars}'
        f'<line class="axis" x1="0" x2="{WIDTH}" y1="{HEIGHT}" y2="{HEIGHT}"></line>'
        f'<text x="0" y="{HEIGHT + 18}">{_time(first * span_ms)}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 18}" text-anchor="end">{_time((last + 1) * span_ms)}</text></svg>'
    )


def _time(time_ms: int) -> str:
    if time_ms < 0:
        return "none"
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
