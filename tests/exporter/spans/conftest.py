from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ...otlp import spans


class Receiver:
    """An OTLP/HTTP receiver: keeps what it got as plain dictionaries."""

    def __init__(self):
        self.spans = []
        self.status = 200

    async def traces(self, request):
        got = ExportTraceServiceRequest.FromString(await request.read())
        if self.status == 200:
            self.spans += spans(got)
        body = ExportTraceServiceResponse().SerializeToString()
        return web.Response(status=self.status, body=body, content_type="application/x-protobuf")

    def named(self, name):
        return [span for span in self.spans if span["name"] == name]

    def one(self, name):
        (span,) = self.named(name)
        return span


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
