"""Which spans tell of a request, a transfer, an eviction. Pure: facts in, plans with explicit times and ids out.

Ids are derived from the facts, so that a hit and the transfer that served it can name each other whichever is
exported first, and a request's own trace can be found from its id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil

from hicache_exporter.core import span_names as names
from hicache_exporter.core.counting import DIRECTION_NAMES
from hicache_exporter.core.decoding import T_NS
from hicache_exporter.core.operations import Move
from hicache_exporter.core.rank_ledger import RankLedger
from hicache_exporter.core.residency import Departure
from hicache_exporter.core.story import Story
from hicache_exporter.core.testimony import moves_of
from hicache_proof.evidence import Evidence
from hicache_proof.verdict import Judgement
from hicache_tracing.records import Direction

MAX_LINKS = 64

Attributes = dict[str, str | int | float]


@dataclass(frozen=True, slots=True)
class SpanId:
    trace_id: int
    span_id: int


@dataclass(frozen=True, slots=True)
class SpanLink:
    to: SpanId
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanPlan:
    """``start_ns``, ``end_ns``: nanoseconds since the epoch. ``parent`` None: the root of its own trace."""

    name: str
    id: SpanId
    parent: SpanId | None
    start_ns: int
    end_ns: int
    attributes: Attributes
    links: tuple[SpanLink, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestSpans:
    """``own`` is in one trace, its first span the topmost. ``shared`` are roots of their own: what served it."""

    own: tuple[SpanPlan, ...]
    shared: tuple[SpanPlan, ...]


def request_spans(ledger: RankLedger, story: Story, evidence: Evidence, judgement: Judgement) -> RequestSpans:
    """The spans of a judged request, and those of transfers and evictions that no other request has told of yet."""
    told = _Told(ledger, story, evidence, judgement)
    own = [told.lookup(), *told.hits()]
    if story.trace is None:
        own.insert(0, told.root())
    shared = []
    for move in moves_of(story):
        if move.done_ns is not None and not move.spanned:
            move.spanned = True
            shared.append(transfer_span(ledger, move))
    shared += [_evict_span(ledger, node, gone, story) for node, gone in _departures(story)]
    return RequestSpans(tuple(own), tuple(shared))


def trace_of(ledger: RankLedger, story: Story) -> int:
    """The trace of a request: SGLang's where it traces it, else one that follows from the request's id."""
    return story.trace.trace_id if story.trace is not None else _number(16, ledger.request_id(story.rid))


def transfer_span(ledger: RankLedger, move: Move) -> SpanPlan:
    """One transfer, linked to every request that it served (host to device) or that started it (device to host)."""
    to_device = move.direction == Direction.HOST_TO_DEVICE
    source, destination = ("host", "device") if to_device else ("device", "host")
    tokens, size = move.volume(ledger.identity.bytes_per_token)
    attributes: Attributes = {
        names.OPERATION: "transfer",
        names.SOURCE_TIER: source,
        names.DESTINATION_TIER: destination,
        names.TRANSFER_TOKENS: tokens,
        names.REQUEST_COUNT: move.requests,
        **_pages(ledger, tokens),
    }
    if size is not None:
        attributes[names.TRANSFER_SIZE] = size
    if not move.finished:
        attributes[names.OUTCOME] = "cancelled"
    links = []
    for story in list(move.stories)[:MAX_LINKS]:
        about: Attributes = {names.REQUEST_ID: ledger.request_id(story.rid)}
        if to_device:
            about[names.HIT_TOKENS] = moves_of(story).get(move, 0)
        links.append(SpanLink(_id(ledger, story, "hit host" if to_device else "lookup"), about))
    return SpanPlan(
        name=names.TRANSFER.format(direction=DIRECTION_NAMES[move.direction]),
        id=_move_id(ledger, move),
        parent=None,
        start_ns=ledger.clock.epoch_ns(move.submitted_ns),
        end_ns=ledger.clock.epoch_ns(_move_end(move)),
        attributes=attributes,
        links=tuple(links),
    )


class _Told:
    """One request's facts, put into spans."""

    def __init__(self, ledger: RankLedger, story: Story, evidence: Evidence, judgement: Judgement) -> None:
        self.ledger = ledger
        self.story = story
        self.evidence = evidence
        self.judgement = judgement
        self.request_id = evidence.request_id
        self.admitted_ns = story.admitted_ns or story.last_ns
        if story.trace is not None:
            self.parent = SpanId(story.trace.trace_id, story.trace.span_id)
        else:
            self.parent = _id(ledger, story, "request")

    def root(self) -> SpanPlan:
        evidence, story = self.evidence, self.story
        end_ns = story.first_token_ns or self.admitted_ns
        start_ns = story.lookup[T_NS] if story.lookup is not None else self.admitted_ns
        if story.ttft_seconds is not None:
            start_ns = min(start_ns, end_ns - int(story.ttft_seconds * 1e9))
        attributes: Attributes = {
            names.REQUEST_ID: self.request_id,
            names.MODEL: self.ledger.identity.served_model_name or self.ledger.identity.model,
        }
        if evidence.prompt_tokens is not None:
            attributes[names.INPUT_TOKENS] = evidence.prompt_tokens
            attributes[names.CACHE_READ_TOKENS] = sum(tokens for _, tokens in self._served())
        return self._span(names.REQUEST, self.parent, None, start_ns, end_ns, attributes)

    def lookup(self) -> SpanPlan:
        start_ns = self.story.lookup[T_NS] if self.story.lookup is not None else self.admitted_ns
        attributes: Attributes = {
            names.OPERATION: "lookup",
            names.REQUEST_ID: self.request_id,
            names.OUTCOME: self._outcome(),
            names.VERDICT: self.judgement.verdict,
            names.CONTENT: self.judgement.content,
            names.SERVED_BY: self.judgement.served_by,
            **_ranks(self.ledger),
        }
        if self.evidence.prompt_tokens is not None:
            attributes[names.PROMPT_TOKENS] = self.evidence.prompt_tokens
        span = _id(self.ledger, self.story, "lookup")
        return self._span(names.LOOKUP, span, self.parent, start_ns, self.admitted_ns, attributes)

    def hits(self) -> list[SpanPlan]:
        return [self._hit(tier, tokens) for tier, tokens in self._served()]

    def _hit(self, tier: str, tokens: int) -> SpanPlan:
        moves = [move for move in moves_of(self.story) if move.done_ns is not None] if tier == "host" else []
        start_ns = end_ns = self.admitted_ns
        if moves:
            start_ns = min(load.t_ns for load in self.story.loads)
            end_ns = max(start_ns, *(_move_end(move) for move in moves))
        attributes: Attributes = {
            names.OPERATION: "hit",
            names.REQUEST_ID: self.request_id,
            names.TIER: tier,
            names.HIT_TOKENS: tokens,
            names.WAIT_TIME: (end_ns - start_ns) / 1e9,
            names.BASIS: "measured" if moves else "claimed",
            **_pages(self.ledger, tokens),
        }
        links = tuple(SpanLink(_move_id(self.ledger, move)) for move in moves[:MAX_LINKS])
        span = _id(self.ledger, self.story, f"hit {tier}")
        return self._span(names.HIT.format(tier=tier), span, self.parent, start_ns, end_ns, attributes, links)

    def _served(self) -> list[tuple[str, int]]:
        account = self.evidence.attribution
        if account is None:
            return []
        tiers = (("device", account.device_tokens), ("host", account.host_tokens), ("storage", account.storage_tokens))
        return [(tier, tokens) for tier, tokens in tiers if tokens]

    def _outcome(self) -> str:
        """A hit leaves less than a page to compute: the last token is always computed."""
        if not self._served():
            return "miss"
        left = self.evidence.computed_tokens
        return "hit" if left is not None and left <= (self.evidence.page_size or 1) else "partial"

    def _span(
        self,
        name: str,
        span: SpanId,
        parent: SpanId | None,
        start_ns: int,
        end_ns: int,
        attributes: Attributes,
        links: tuple[SpanLink, ...] = (),
    ) -> SpanPlan:
        epoch_ns = self.ledger.clock.epoch_ns
        return SpanPlan(name, span, parent, epoch_ns(start_ns), epoch_ns(max(start_ns, end_ns)), attributes, links)


def _evict_span(ledger: RankLedger, node: int, gone: Departure, story: Story) -> SpanPlan:
    at_ns = ledger.clock.epoch_ns(gone.t_ns)
    attributes: Attributes = {
        names.OPERATION: "evict",
        names.TIER: "device",
        names.EVICTED_TOKENS: gone.tokens,
        **_pages(ledger, gone.tokens),
    }
    span = _derived(ledger, f"evict {gone.seq}")
    link = SpanLink(_id(ledger, story, "hit host"), {names.REQUEST_ID: ledger.request_id(story.rid)})
    return SpanPlan(names.EVICT.format(tier="device"), span, None, at_ns, at_ns, attributes, (link,))


def _departures(story: Story) -> list[tuple[int, Departure]]:
    found = {gone.seq: (node, gone) for load in story.loads if load.read for node, gone in load.read.departures}
    return list(found.values())[:MAX_LINKS]


def _move_end(move: Move) -> int:
    """When the copy ended: by the device clock, or else when the engine saw that it had."""
    if move.device_ns is not None:
        return move.submitted_ns + move.device_ns
    return move.done_ns or move.submitted_ns


def _pages(ledger: RankLedger, tokens: int) -> Attributes:
    size = ledger.identity.page_size
    return {} if not size else {names.PAGES: ceil(tokens / size), names.PAGE_SIZE: size}


def _ranks(ledger: RankLedger) -> Attributes:
    identity = ledger.identity
    return {names.TP_RANK: identity.tp_rank, names.PP_RANK: identity.pp_rank, names.DP_RANK: identity.dp_rank}


def _id(ledger: RankLedger, story: Story, what: str) -> SpanId:
    """The id of one of a request's spans: in SGLang's trace where there is one, else in one of its own."""
    return SpanId(trace_of(ledger, story), _number(8, f"{ledger.clock.wall_ns}/{story.first_seq}/{what}"))


def _move_id(ledger: RankLedger, move: Move) -> SpanId:
    return _derived(ledger, f"transfer {move.identifier}")


def _derived(ledger: RankLedger, what: str) -> SpanId:
    text = f"{ledger.identity.address}/{ledger.identity.rank}/{ledger.clock.wall_ns}/{what}"
    return SpanId(_number(16, text), _number(8, text))


def _number(size: int, text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()) or 1
