"""A /metrics answer as {series: value}, read by prometheus_client's own parsers."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text


def series(text: str, *, openmetrics: bool = False) -> dict[str, float]:
    parse = parse_openmetrics if openmetrics else parse_text
    found = {}
    for family in parse(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()) if name != "engine")
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found
