"""Pieces of alert texts in Prometheus' template language."""

from __future__ import annotations

from typing import Literal

Form = Literal["humanize", "humanizePercentage", "humanizeDuration", "humanize1024"]

ENGINE = "{{ $labels.engine }} ({{ $labels.instance }})"
INSTANCE = "{{ $labels.instance }}"
TIER = "{{ $labels.tier }}"


def value(form: Form = "humanize") -> str:
    return f"{{{{ $value | {form} }}}}"


def recorded(series: str, form: Form = "humanize", labels: tuple[str, ...] = ("job", "instance", "engine")) -> str:
    """Another recorded series of the same engine, read when the alert fires."""
    matchers = ",".join(f"{label}=%q" for label in labels)
    arguments = " ".join(f"$labels.{label}" for label in labels)
    query = f'printf "{series}{{{matchers}}}" {arguments} | query'
    return f"{{{{ with {query} }}}}{{{{ . | first | value | {form} }}}}{{{{ else }}}}unknown{{{{ end }}}}"
