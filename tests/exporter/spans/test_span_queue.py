"""The queue in front of the exporter: bounded, never in the way, and nothing is lost uncounted."""

import gc
import threading
import time
import weakref

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from hicache_exporter.emit.otlp_settings import SpanExportError, otlp_settings
from hicache_exporter.emit.span_queue import SpanQueue


class Exporter(SpanExporter):
    def __init__(self, result=SpanExportResult.SUCCESS, gate=None):
        self.batches = []
        self.result = result
        self.gate = gate
        self.closed = False

    def export(self, spans):
        if self.gate is not None:
            self.gate.wait(10)
        self.batches.append(len(spans))
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def shutdown(self):
        self.closed = True


def put(queue, count):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(queue)
    for _ in range(count):
        provider.get_tracer("test").start_span("span").end()


def test_everything_is_exported_in_batches():
    exporter = Exporter()
    queue = SpanQueue(exporter, batch=4, delay=0.01)
    put(queue, 10)
    queue.shutdown(5)
    assert sum(exporter.batches) == 10
    assert max(exporter.batches) <= 4
    assert (queue.exported, queue.dropped, queue.failed, exporter.closed) == (10, 0, 0, True)


def test_a_full_batch_does_not_wait_for_the_delay_and_the_rest_does():
    exporter = Exporter()
    queue = SpanQueue(exporter, batch=4, delay=30)
    put(queue, 10)
    deadline = time.monotonic() + 5
    while queue.exported < 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert exporter.batches == [4, 4]
    queue.shutdown(5)
    assert exporter.batches == [4, 4, 2]


def test_a_batch_is_no_larger_than_the_queue():
    exporter = Exporter()
    queue = SpanQueue(exporter, room=2, batch=4, delay=30)
    put(queue, 2)
    deadline = time.monotonic() + 5
    while not exporter.batches and time.monotonic() < deadline:
        time.sleep(0.01)
    assert exporter.batches == [2]
    queue.shutdown(1)


def test_a_full_queue_drops_and_counts_and_never_waits():
    gate = threading.Event()
    queue = SpanQueue(Exporter(gate=gate), room=5, batch=2, delay=0.01)
    put(queue, 2)
    time.sleep(0.1)  # two are with the exporter, which hangs
    began = time.monotonic()
    put(queue, 20)
    assert time.monotonic() - began < 1
    assert queue.dropped == 15
    gate.set()
    queue.shutdown(5)
    assert (queue.exported, queue.dropped) == (7, 15)


def test_what_a_hanging_exporter_did_not_take_counts_as_dropped():
    gate = threading.Event()
    queue = SpanQueue(Exporter(gate=gate), batch=2, delay=0.01)
    put(queue, 2)
    time.sleep(0.1)
    put(queue, 5)
    began = time.monotonic()
    queue.shutdown(0.2)
    assert time.monotonic() - began < 1
    assert queue.dropped == 7  # two of them were with the exporter
    gate.set()


def test_a_batch_on_its_way_at_the_end_counts_once_whatever_becomes_of_it():
    gate = threading.Event()
    queue = SpanQueue(Exporter(gate=gate), room=5, batch=2, delay=0.01)
    put(queue, 2)
    time.sleep(0.1)  # both are with the exporter, which hangs
    queue.shutdown(0.1)
    assert (queue.exported, queue.dropped, queue.failed) == (0, 2, 0)
    gate.set()
    time.sleep(0.1)
    assert (queue.exported, queue.dropped, queue.failed) == (0, 2, 0)


@pytest.mark.parametrize("result", [SpanExportResult.FAILURE, RuntimeError("broken on purpose")])
def test_a_failing_exporter_is_counted_and_tried_again(result):
    queue = SpanQueue(Exporter(result), delay=0.01)
    put(queue, 3)
    time.sleep(0.1)
    put(queue, 2)
    queue.shutdown(5)
    assert (queue.exported, queue.failed) == (0, 5)


def test_an_exporter_that_keeps_its_last_batch_in_a_cycle_keeps_no_spans():
    class Keeping(Exporter):
        def export(self, spans):
            self.kept = spans
            return super().export(spans)

    exporter = Keeping(SpanExportResult.FAILURE)
    queue = SpanQueue(exporter, delay=0.01)
    put(queue, 3)
    queue.shutdown(5)
    assert (exporter.batches, queue.failed, list(exporter.kept)) == ([3], 3, [])


def test_what_a_failure_leaves_in_a_cycle_is_looked_for():
    class Batch:
        """Encoded."""

    class Failing(Exporter):
        def export(self, spans):
            batch = Batch()
            batches.append(weakref.ref(batch))
            try:
                raise ConnectionError
            except ConnectionError as error:
                kept = error  # noqa: F841 - the cycle: this frame, the error, its traceback
            return SpanExportResult.FAILURE

    batches = []
    gc.disable()
    try:
        queue = SpanQueue(Failing(), delay=0.01)
        put(queue, 3)
        queue.shutdown(5)
        assert [batch() for batch in batches] == [None]
    finally:
        gc.enable()


def test_after_the_end_spans_are_dropped():
    queue = SpanQueue(Exporter(), delay=0.01)
    queue.shutdown(1)
    put(queue, 3)
    assert queue.dropped == 3


# -- settings ----------------------------------------------------------------------------------------------------


def test_no_endpoint_means_no_export():
    assert otlp_settings({}) is None
    assert otlp_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": "  "}) is None


def test_the_variable_for_traces_wins():
    settings = otlp_settings(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://all:4318",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:4318/v1/traces",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        }
    )
    assert (settings.endpoint, settings.protocol) == ("http://traces:4318/v1/traces", "http/protobuf")


def test_grpc_takes_an_address_without_a_scheme():
    assert otlp_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})


@pytest.mark.parametrize("endpoint", ["localhost:4318", "http://", "ftp://x", "http://x:port", "4318"])
def test_an_endpoint_that_is_no_url_is_refused(endpoint):
    with pytest.raises(SpanExportError, match="http:// or https://"):
        otlp_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})


def test_an_unknown_exporter_is_refused():
    with pytest.raises(SpanExportError, match="use otlp or none"):
        otlp_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:1", "OTEL_TRACES_EXPORTER": "zipkin"})


def test_a_missing_package_is_one_sentence(monkeypatch):
    import sys

    from hicache_exporter.emit.otlp import span_queue

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SpanExportError, match="pip install opentelemetry-exporter-otlp"):
        span_queue(otlp_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:1"}), {})
