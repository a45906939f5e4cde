from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Receiver:
    """An OTLP/HTTP receiver: keeps what it got as plain dictionaries."""

    def __init__(self):
        self.spans = []
        self.status = 200

    async def traces(self, request):
        got = ExportTraceServiceRequest.FromString(await request.read())
        if self.status == 200:
            for resource_spans in got.resource_spans:
                resource = attributes(resource_spans.resource.attributes)
                for scope_spans in resource_spans.scope_spans:
                    self.spans += [plain(span, resource, scope_spans) for span in scope_spans.spans]
        body = ExportTraceServiceResponse().SerializeToString()
        return web.Response(status=self.status, body=body, content_type="application/x-protobuf")

    def named(self, name):
        return [span for span in self.spans if span["name"] == name]

    def one(self, name):
        (span,) = self.named(name)
        return span


def plain(span, resource, scope_spans):
    return {
        "name": span.name,
        "trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "start_ns": span.start_time_unix_nano,
        "end_ns": span.end_time_unix_nano,
        "kind": span.kind,
        "status": span.status.code,
        "attributes": attributes(span.attributes),
        "links": [(link.trace_id.hex(), link.span_id.hex(), attributes(link.attributes)) for link in span.links],
        "resource": resource,
        "scope": (scope_spans.scope.name, scope_spans.scope.version, scope_spans.schema_url),
    }


def attributes(pairs):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@pytest.fixture
def receiver(monkeypatch):
    """Makes a receiver to which OTEL_EXPORTER_OTLP_ENDPOINT leads, to be entered as an async context."""

    @asynccontextmanager
    async def running():
        received = Receiver()
        application = web.Application()
        application.router.add_post("/v1/traces", received.traces)
        async with TestServer(application) as server:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", str(server.make_url("/")).rstrip("/"))
            monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
            yield received

    return running
