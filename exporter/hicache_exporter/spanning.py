"""When which spans are emitted: a request's once its verdict is final, a backup's transfer once it has finished."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable, Mapping

from hicache_exporter.core.exemplars import mark_request, mark_transfer
from hicache_exporter.core.operations import Move
from hicache_exporter.core.rank_ledger import RankLedger
from hicache_exporter.core.spans import request_spans, trace_of, transfer_span
from hicache_exporter.emit.otlp_settings import SpanExportError, otlp_settings
from hicache_exporter.judging import Proof
from hicache_tracing.records import Direction

log = logging.getLogger(__name__)

MAX_WAITING = 1024
STATES = ("on", "off", "refused")


class Spanning:
    """Does nothing unless an OTLP endpoint was named. OpenTelemetry is imported only then."""

    def __init__(self, since_ns: int, environment: Mapping[str, str] = os.environ) -> None:
        """Of a request that was admitted before ``since_ns`` an earlier sidecar has told: it is passed over."""
        self.state = "off"
        self._since_ns = since_ns
        self._emitter = None
        self._waiting: deque[tuple[RankLedger, Move]] = deque(maxlen=MAX_WAITING)
        try:
            settings = otlp_settings(environment)
            if settings is None:
                return
            from hicache_exporter.emit.otlp import SpanEmitter, span_queue

            self._emitter = SpanEmitter(span_queue(settings, environment))
        except (SpanExportError, ImportError) as reason:
            self.state = "refused"
            log.warning("no spans are exported: %s", reason)
            return
        self.state = "on"
        log.info("spans go to %s over %s", settings.endpoint, settings.protocol)

    def outcomes(self) -> dict[str, int]:
        """Spans by what became of them (names.SPAN_OUTCOMES)."""
        queue = self._emitter.queue if self._emitter is not None else None
        return {name: getattr(queue, name, 0) for name in ("exported", "dropped", "failed")}

    def hear(self, proof: Proof) -> None:
        """A request was judged; its spans are emitted once, when that is final."""
        story = proof.story
        if self._emitter is None or not proof.final or story.sampled is not None:
            return
        if (story.admitted_ns or 0) < self._since_ns or (story.trace is not None and not story.trace.sampled):
            story.sampled = False
            return
        spans = request_spans(proof.ledger, story, proof.evidence, proof.judgement)
        story.sampled = self._emitter.request(proof.ledger.identity, spans, parent_sampled=story.trace is not None)
        if story.sampled and story.trace is None:
            mark_request(proof.ledger, story, trace_of(proof.ledger, story))

    def finished(self, ledgers: Iterable[RankLedger]) -> None:
        """Take the transfers that finished; a backup's is emitted once it is known whether its request is sampled."""
        if self._emitter is None:
            return
        for ledger in ledgers:
            while ledger.moved:
                move = ledger.moved.popleft()
                if move.direction == Direction.DEVICE_TO_HOST and move.stories and ledger.identity.leads:
                    self._waiting.append((ledger, move))
        for _ in range(len(self._waiting)):
            ledger, move = self._waiting.popleft()
            sampled = next((story for story in move.stories if story.sampled), None)
            if sampled is not None:
                self._emitter.shared(ledger.identity, transfer_span(ledger, move))
                mark_transfer(ledger, move, trace_of(ledger, sampled))
            elif any(story.sampled is None and not story.settled for story in move.stories):
                self._waiting.append((ledger, move))

    def stop(self, seconds: float) -> None:
        """Send what is queued, for so long at most."""
        if self._emitter is not None:
            self._emitter.queue.shutdown(seconds)
