"""Where spans go, from the environment variables that OpenTelemetry standardises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

PROTOCOLS = ("http/protobuf", "grpc")


class SpanExportError(Exception):
    """Spans can't be exported as asked; the text is one sentence that says what to set."""


@dataclass(frozen=True, slots=True)
class OtlpSettings:
    protocol: str
    endpoint: str
    """For messages: the exporter itself reads the environment, with its certificates, headers and time-outs."""


def otlp_settings(environment: Mapping[str, str]) -> OtlpSettings | None:
    """None where no export is asked for. Raises SpanExportError.

    An empty value means unset. Without an endpoint nothing is exported: a sidecar must not talk to a default address
    that nobody named.
    """

    def value(name: str) -> str:
        return environment.get(name, "").strip()

    if value("OTEL_SDK_DISABLED").lower() == "true" or value("OTEL_TRACES_EXPORTER") == "none":
        return None
    endpoint = value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or value("OTEL_EXPORTER_OTLP_ENDPOINT")
    if not endpoint:
        return None
    exporter = value("OTEL_TRACES_EXPORTER")
    if exporter not in ("", "otlp"):
        raise SpanExportError(f"OTEL_TRACES_EXPORTER={exporter} is not known here: use otlp or none")
    protocol = value("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or value("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if protocol not in PROTOCOLS:
        raise SpanExportError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol} is not known here: use {' or '.join(PROTOCOLS)}")
    if protocol == "http/protobuf":
        _check_url(endpoint)
    return OtlpSettings(protocol, endpoint)


def _check_url(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable:
        raise SpanExportError(f"the OTLP endpoint {endpoint!r} is no URL: write it with http:// or https:// in front")
