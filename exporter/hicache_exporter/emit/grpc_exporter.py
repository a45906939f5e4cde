"""The SDK's gRPC exporter, less what it keeps of a batch that failed.

It stores the last error in a frame of that error's own traceback, a cycle; and grpc's frames in there hold the encoded
request, a quarter of a megabyte. While a collector is dead, and Python rarely looks for garbage, those add up.
"""

from __future__ import annotations

from typing import Any

from grpc import RpcError  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter


class GrpcExporter(OTLPSpanExporter):
    def _initialize_channel_and_stub(self) -> None:
        """Called by the SDK again when it opens another channel. Releases without it are as they were."""
        super()._initialize_channel_and_stub()  # type: ignore[no-untyped-call]
        self._client: Any = _Client(self._client)


class _Client:
    def __init__(self, stub: Any) -> None:
        self._stub = stub

    def Export(self, **call: Any) -> Any:  # noqa: N802 - grpc's name
        try:
            return self._stub.Export(**call)
        except RpcError as error:
            call.clear()
            raise error.with_traceback(None)  # noqa: B904 - it is the same error, without the frames behind it
