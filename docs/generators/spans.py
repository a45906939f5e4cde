"""The page of spans: those that real, recorded requests give, with an example of each attribute."""

from __future__ import annotations

from hicache_exporter.core import span_names as names
from hicache_exporter.core.spans import Attributes, SpanPlan, request_spans

from .markdown import cell, code, page, table
from .recordings import runs

INTRODUCTION = f"""
Made by the sidecar after a request was judged, from the flight recorder; the engine's process makes none. Scope
`{names.SCOPE}`, schema `{names.SCHEMA_URL}`. The examples are of one request that read L2 on an H200. What the
spans are for, and how they join SGLang's own trace: [beside SGLang's own tracing](../guides/tracing.md).
"""
KINDS = {
    names.REQUEST: "a request; only where SGLang does not trace it",
    names.LOOKUP: "from the last lookup to admission",
    names.HIT: "one for each tier that served: `device`, `host`, `storage`. It ends when the copy has",
    names.TRANSFER: "a copy between L1 and L2: `host_to_device` or `device_to_host`",
    names.EVICT: "the moment when blocks left L1 that this request later read from L2",
}
MEANINGS = {
    names.REQUEST_ID: "the request's id, as the engine and `/proofs` have it",
    names.MODEL: "as OpenTelemetry names it",
    names.INPUT_TOKENS: "prompt tokens; absent where the engine did not tell",
    names.CACHE_READ_TOKENS: "prompt tokens that came from any tier",
    names.OPERATION: "`lookup`, `hit`, `transfer`, `evict`",
    names.OUTCOME: "`hit`, `partial`, `miss`; of a transfer `cancelled`, when a flush dropped it, else absent",
    names.VERDICT: "the [judgement](verdicts.md) on the claim that it read L2",
    names.CONTENT: "`intact`, `damaged`, `not_checked`",
    names.SERVED_BY: "`device`, `host`, `storage`, `mixed`, `none`, `unknown`",
    names.TP_RANK: "the rank that tells it",
    names.PP_RANK: "the same",
    names.DP_RANK: "the same",
    names.PROMPT_TOKENS: "tokens; absent where the engine did not tell",
    names.TIER: "`device`, `host`, `storage`",
    names.HIT_TOKENS: "tokens that this tier served",
    names.WAIT_TIME: "seconds from the load being queued to its end; 0 from L1",
    names.BASIS: "`measured`: a transfer was seen; `claimed`: the engine's account only",
    names.SOURCE_TIER: "`device`, `host`",
    names.DESTINATION_TIER: "`device`, `host`",
    names.TRANSFER_TOKENS: "tokens",
    names.TRANSFER_SIZE: "bytes of this rank; absent where neither engine nor pool tells them",
    names.REQUEST_COUNT: "requests that it served; at most 64 of them are linked",
    names.EVICTED_TOKENS: "tokens",
    names.PAGES: "pages; absent where the page size is not known",
    names.PAGE_SIZE: "tokens a page",
}


def rendered() -> str:
    told = _examples()
    sections = [_section(kind, meaning, told[kind]) for kind, meaning in KINDS.items()]
    return page("Spans", INTRODUCTION, *sections, source="exporter/hicache_exporter/core/spans.py")


def _section(kind: str, meaning: str, span: SpanPlan) -> str:
    parent = "a root of its own" if span.parent is None else "child of SGLang's request span, or of `kv_cache.request`"
    links = _links(span)
    head = f"## {kind}\n\n{meaning[0].upper()}{meaning[1:]}. {parent[0].upper()}{parent[1:]}.{links}\n\n"
    return head + table(("attribute", "type", "meaning", "example"), [_line(*each) for each in span.attributes.items()])


def _links(span: SpanPlan) -> str:
    attributes: Attributes = {}
    for link in span.links:
        attributes |= link.attributes
    if not span.links:
        return ""
    told = f", each with {', '.join(map(code, attributes))}" if attributes else ""
    return f" Linked to what it belongs to{told}."


def _line(name: str, value: str | float) -> tuple[str, ...]:
    kind = {str: "string", int: "int", float: "double"}[type(value)]
    return code(name), kind, MEANINGS[name], code(cell(str(round(value, 6) if isinstance(value, float) else value)))


def _examples() -> dict[str, SpanPlan]:
    """Kind of span to one of the first recorded request that was read back from L2."""
    proof = runs()[0].of("C")[0]
    spans = request_spans(proof.ledger, proof.story, proof.evidence, proof.judgement)
    found: dict[str, SpanPlan] = {}
    for span in (*spans.own, *spans.shared):
        kind = next(kind for kind in KINDS if span.name.startswith(kind.partition("{")[0]))
        found.setdefault(kind, span)
    return found
