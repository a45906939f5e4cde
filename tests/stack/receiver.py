"""A collector that takes spans over OTLP, gRPC or http/protobuf, and can be pulled out and plugged in again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from hicache_proof.demo.ports import free_port

from ..otlp import spans

Span = dict[str, Any]
KEPT = 20_000


class Receiver:
    """``protocol``: as OTEL_EXPORTER_OTLP_PROTOCOL has it."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.port = free_port()
        self.spans: deque[Span] = deque(maxlen=KEPT)
        self._pull: Callable[[], None] | None = None

    @property
    def variables(self) -> dict[str, str]:
        """What leads an exporter here."""
        endpoint = f"http://127.0.0.1:{self.port}"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": self.protocol}

    @contextmanager
    def run(self) -> Iterator[Receiver]:
        self.plug()
        yield self
        self.unplug()

    def plug(self) -> None:
        serve = _serve_grpc if self.protocol == "grpc" else _serve_http
        self._pull = serve(self.port, lambda request: self.spans.extend(spans(request)))

    def unplug(self) -> None:
        """Nobody listens any more."""
        if self._pull is not None:
            self._pull()
        self._pull = None

    def of(self, request_id: str) -> list[Span]:
        return [span for span in list(self.spans) if span["attributes"].get("sglang.request.id") == request_id]


Take = Callable[[ExportTraceServiceRequest], None]


def _serve_grpc(port: int, take: Take) -> Callable[[], None]:
    class Service(service.TraceServiceServicer):
        def Export(self, request: ExportTraceServiceRequest, context: Any) -> Any:  # noqa: N802 - as the service has it
            take(request)
            return ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    service.add_TraceServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call]
    assert server.add_insecure_port(f"127.0.0.1:{port}") == port
    server.start()
    return lambda: server.stop(0).wait(5) and None


def _serve_http(port: int, take: Take) -> Callable[[], None]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            take(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()

    def pull() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return pull
