"""A bounded queue between spans and their exporter. Putting never waits, and nothing is lost uncounted.

The SDK's own batch processor drops silently: what it dropped can't be asked of it.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections import deque

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context, attach, detach, set_value
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0


class SpanQueue(SpanProcessor):
    """Ended spans in, batches out, on a thread that nobody waits for longer than ``shutdown`` is told to."""

    def __init__(self, exporter: SpanExporter, *, room: int = 2048, batch: int = 512, delay: float = 1.0) -> None:
        """``delay``: seconds between two batches, unless one is full earlier."""
        self.exported = 0
        self.dropped = 0
        self.failed = 0
        self._exporter = exporter
        self._room, self._batch, self._delay = room, min(batch, room), delay
        self._spans: deque[ReadableSpan] = deque()
        self._wake = threading.Event()
        self._sending = 0
        self._looked = -LOOK_SECONDS
        self._stopping = self._given_up = False
        self._thread = threading.Thread(target=self._run, name="span-export", daemon=True)
        self._thread.start()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing to do before a span has ended."""

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is None or not span.context.trace_flags.sampled:
            return
        if self._stopping or len(self._spans) >= self._room:
            self.dropped += 1
            return
        self._spans.append(span)
        if len(self._spans) >= self._batch and not self._wake.is_set():
            self._wake.set()

    def shutdown(self, timeout: float = 1.0) -> None:
        """Export what is queued, for ``timeout`` seconds at most; what is left then counts as dropped."""
        if self._stopping:
            return
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout)
        self._given_up = True  # a batch still on its way counts as dropped: nobody will hear what became of it
        self.dropped += len(self._spans) + self._sending
        self._spans.clear()
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Not offered: nobody may wait for a collector."""
        return False

    def _run(self) -> None:
        while not self._stopping:
            full = self._wake.wait(self._delay)
            self._wake.clear()
            self._export(self._batch if full else 1)
        self._export(1)

    def _export(self, least: int) -> None:
        """Batch by batch, until fewer than ``least`` are left: a batch of a few costs as much as a full one."""
        while len(self._spans) >= least:
            count = min(len(self._spans), self._batch)
            spans = [self._spans.popleft() for _ in range(count)]
            self._sending = count
            token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
            try:
                result = self._exporter.export(spans)
            except Exception:
                log.exception("the span exporter failed")
                result = SpanExportResult.FAILURE
            finally:
                detach(token)
                spans.clear()  # a failure leaves its frames, and so the batch, in a cycle until Python looks
            if self._given_up:
                return
            self._sending = 0
            if result is SpanExportResult.SUCCESS:
                self.exported += count
            else:
                self.failed += count
                self._look_for_what_is_left()

    def _look_for_what_is_left(self) -> None:
        """An error lies in a frame of its own traceback, and frames of the exporter's hold the encoded batch, a quarter
        of a megabyte. While a collector is dead these add up, as Python looks for such cycles rarely.
        """
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            gc.collect(1)
