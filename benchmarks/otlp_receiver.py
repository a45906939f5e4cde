"""A collector of spans, over gRPC and over HTTP, in a process of its own: it decodes and counts what it is sent."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from typing import Any

import grpc
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Request
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse as Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)


class Received:
    """Spans and bytes so far, over the life of any number of receivers."""

    def __init__(self) -> None:
        self.cells: tuple[Synchronized[int], Synchronized[int]] = (
            multiprocessing.Value("Q"),
            multiprocessing.Value("Q"),
        )

    @property
    def spans(self) -> int:
        return self.cells[0].value

    @property
    def bytes(self) -> int:
        return self.cells[1].value


@contextmanager
def receiver(protocol: str, port: int, received: Received) -> Iterator[None]:
    """Listens on ``port`` of 127.0.0.1 while it is entered."""
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=_run, args=(protocol, port, received, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(20):
            raise SystemExit("the receiver did not start in 20 seconds")
        yield
    finally:
        process.kill()
        process.join(5)


def _run(protocol: str, port: int, received: Received, ready: Any) -> None:
    asyncio.run(_grpc(port, received, ready) if protocol == "grpc" else _http(port, received, ready))


def _count(received: Received, request: Request, size: int) -> None:
    spans = sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
    for cell, more in zip(received.cells, (spans, size), strict=True):
        with cell.get_lock():
            cell.value += more


async def _grpc(port: int, received: Received, ready: Any) -> None:
    class Service(TraceServiceServicer):  # type: ignore[misc]
        async def Export(self, request: Request, _context: object) -> Response:  # noqa: N802 - the protocol's name
            _count(received, request, request.ByteSize())
            return Response()

    server = grpc.aio.server()
    add_TraceServiceServicer_to_server(Service(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    ready.set()
    await server.wait_for_termination()


async def _http(port: int, received: Received, ready: Any) -> None:
    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        _count(received, Request.FromString(body), len(body))
        return web.Response(body=Response().SerializeToString(), content_type="application/x-protobuf")

    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    ready.set()
    await asyncio.Event().wait()
