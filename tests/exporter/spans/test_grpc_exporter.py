"""What stays of a batch that no collector took."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from hicache_exporter.emit.grpc_exporter import GrpcExporter
from hicache_proof.demo.ports import free_port


@pytest.fixture
def no_looking_for_garbage():
    gc.disable()
    yield
    gc.enable()


def test_a_batch_that_failed_is_gone_without_a_look_for_garbage(monkeypatch, no_looking_for_garbage) -> None:
    requests: list[object] = []
    translate = GrpcExporter._translate_data

    def encode(exporter: GrpcExporter, spans: Sequence[ReadableSpan]) -> object:
        request = translate(exporter, spans)
        requests.append(request)
        return request

    monkeypatch.setattr(GrpcExporter, "_translate_data", encode)
    exporter = GrpcExporter(f"http://127.0.0.1:{free_port()}", timeout=0.5)
    span = TracerProvider().get_tracer("t").start_span("s")
    span.end()
    assert exporter.export([span]) is SpanExportResult.FAILURE
    exporter.shutdown()
    assert requests
    assert [sys.getrefcount(one) for one in requests] == [sys.getrefcount(one) for one in (object(),)] * len(requests)
