"""Helpers that make Prometheus' families of samples."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

Samples = Iterable[tuple[Sequence[str], float]]
"""Label values, each with the sample's value."""


def gauge(name: str, doc: str, value: float) -> Metric:
    """A gauge without labels."""
    return GaugeMetricFamily(name, doc, value=value)


def gauges(name: str, doc: str, labels: Sequence[str], samples: Samples) -> Metric:
    """A gauge with a value for each set of labels."""
    family = GaugeMetricFamily(name, doc, labels=labels)
    for values, sample in samples:
        family.add_metric(values, sample)
    return family


def counters(name: str, doc: str, labels: Sequence[str], samples: Samples) -> Metric:
    """A counter with a value for each set of labels; Prometheus adds `_total` to the name."""
    family = CounterMetricFamily(name, doc, labels=labels)
    for values, sample in samples:
        family.add_metric(values, sample)
    return family


def counted(name: str, doc: str, count: int) -> Metric:
    """The count of a Kafka timer without its times; Prometheus shows it as `NAME_count`."""
    family = SummaryMetricFamily(name, doc)
    family.add_sample(f"{name}_count", {}, count)
    return family


def quantiles(
    name: str,
    doc: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], int, float, Mapping[str, float]]],
) -> Metric:
    """Count, sum and quantiles for each set of labels."""
    family = SummaryMetricFamily(name, doc, labels=labels)
    for values, count, total, by_quantile in samples:
        family.add_metric(values, count_value=count, sum_value=total)
        known = dict(zip(labels, values, strict=True))
        for quantile, sample in by_quantile.items():
            family.add_sample(name, {**known, "quantile": quantile}, sample)
    return family
