"""Plans into OpenTelemetry spans, through a provider of our own: the process's global one is left alone."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags

from hicache_exporter import __version__
from hicache_exporter.core.identity import Identity
from hicache_exporter.core.span_names import SCHEMA_URL, SCOPE
from hicache_exporter.core.spans import RequestSpans, SpanId, SpanPlan
from hicache_exporter.emit.otlp_settings import OtlpSettings, SpanExportError
from hicache_exporter.emit.span_queue import SpanQueue

MAX_TRACERS = 256
DEFAULT_SERVICE = "sglang"


class PlannedIds(IdGenerator):
    """Hands out the ids of the plan that is being made into a span."""

    def __init__(self) -> None:
        self.planned = SpanId(1, 1)

    def generate_trace_id(self) -> int:
        return self.planned.trace_id

    def generate_span_id(self) -> int:
        return self.planned.span_id


class SpanEmitter:
    """Used from one thread. One tracer a rank, since the rank is part of the resource; all share one queue."""

    def __init__(self, queue: SpanQueue) -> None:
        self.queue = queue
        self._ids = PlannedIds()
        self._tracers: dict[tuple[str, str, bool], Tracer] = {}

    def request(self, identity: Identity, spans: RequestSpans, *, parent_sampled: bool) -> bool:
        """Emit a request's spans. Returns whether they were sampled; only then is what it shared emitted as well."""
        sampled, tracer = parent_sampled, self._tracer(identity)
        for index, plan in enumerate(spans.own):
            recorded = self._emit(tracer, plan, sampled=sampled)
            if index == 0:
                sampled = recorded
                if not sampled:
                    return False
        for plan in spans.shared:
            self.shared(identity, plan)
        return True

    def shared(self, identity: Identity, plan: SpanPlan) -> None:
        """Emit a root that belongs to sampled requests: no sampler throws dice for it again."""
        self._emit(self._tracer(identity, ALWAYS_ON), plan, sampled=True)

    def _emit(self, tracer: Tracer, plan: SpanPlan, *, sampled: bool) -> bool:
        self._ids.planned = plan.id
        context = _NOBODY if plan.parent is None else _below(_span_context(plan.parent, sampled=sampled))
        span = tracer.start_span(
            plan.name,
            context=context,
            kind=SpanKind.INTERNAL,
            attributes=plan.attributes,
            links=[Link(_span_context(link.to, sampled=True), link.attributes) for link in plan.links],
            start_time=plan.start_ns,
        )
        span.end(plan.end_ns)
        return span.get_span_context().trace_flags.sampled

    def _tracer(self, identity: Identity, sampler: Sampler | None = None) -> Tracer:
        key = (identity.address, identity.rank, sampler is None)
        if key not in self._tracers:
            if len(self._tracers) >= MAX_TRACERS:
                self._tracers.clear()
            provider = TracerProvider(
                sampler=sampler, resource=_resource(identity), shutdown_on_exit=False, id_generator=self._ids
            )
            provider.add_span_processor(self.queue)
            tracer = provider.get_tracer(SCOPE, __version__, SCHEMA_URL)
            assert isinstance(tracer, Tracer)
            self._tracers[key] = tracer
        return self._tracers[key]


def _below(parent: SpanContext) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(parent))


_NOBODY = _below(trace.INVALID_SPAN_CONTEXT)


def _span_context(span: SpanId, *, sampled: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(span.trace_id, span.span_id, is_remote=True, trace_flags=flags)


class _Known(Resource):
    """A resource that knows its hash: the SDK asks for it at every span, and works it out from the whole as JSON."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource.attributes, resource.schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash


def _resource(identity: Identity) -> Resource:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win over what we know."""
    ours: dict[str, str | int] = {
        "service.name": DEFAULT_SERVICE,
        "service.instance.id": f"{identity.address}/{identity.rank}",
        "host.name": socket.gethostname(),
        "sglang.tp.rank": identity.tp_rank,
        "sglang.pp.rank": identity.pp_rank,
        "sglang.dp.rank": identity.dp_rank,
    }
    pid = identity.facts.get("pid")
    if isinstance(pid, int):
        ours["process.pid"] = pid
    return _Known(Resource.create(ours).merge(OTELResourceDetector().detect()))


def span_queue(settings: OtlpSettings, environment: Mapping[str, str]) -> SpanQueue:
    """The queue in front of the exporter that the environment asks for. Raises SpanExportError."""
    return SpanQueue(
        _exporter(settings),
        room=_number(environment, "OTEL_BSP_MAX_QUEUE_SIZE", 2048),
        batch=_number(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
        delay=_number(environment, "OTEL_BSP_SCHEDULE_DELAY", 1000) / 1000,
    )


def _exporter(settings: OtlpSettings) -> SpanExporter:
    try:
        if settings.protocol == "grpc":
            from hicache_exporter.emit.grpc_exporter import GrpcExporter

            return GrpcExporter()
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

        return HttpExporter()
    except ImportError as error:
        raise SpanExportError(
            f"spans over {settings.protocol} need a package that is missing ({error.name}): "
            "pip install opentelemetry-exporter-otlp"
        ) from error
    except Exception as error:
        raise SpanExportError(f"the OTLP exporter refuses its settings: {error}") from error


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "").strip()
    return int(text) if text.isdecimal() and int(text) > 0 else default
