"""OTLP messages as plain dictionaries, for whoever receives them in a test."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def spans(request: ExportTraceServiceRequest) -> list[dict]:
    return [
        plain(span, attributes(resource_spans.resource.attributes), scope_spans)
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def plain(span, resource, scope_spans) -> dict:
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


def attributes(pairs) -> dict:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
