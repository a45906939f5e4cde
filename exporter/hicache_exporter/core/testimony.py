"""From what the ledger of a ring knows to the Evidence on one request. Facts only: nothing is judged or filled in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hicache_exporter.core.counting import OUTCOME_NAMES
from hicache_exporter.core.decoding import T_NS, named
from hicache_exporter.core.operations import Move
from hicache_exporter.core.rank_ledger import RankLedger
from hicache_exporter.core.residency import SlotsRead
from hicache_exporter.core.story import Story
from hicache_proof.evidence import (
    Attribution,
    Content,
    Evidence,
    LoadBack,
    Lookup,
    Provenance,
    RankView,
    Recorder,
    Residency,
    Transfer,
    Writer,
)
from hicache_tracing.records import ABSENT, ContentMode

_EVER = 1 << 64
"""What is missing of a request that was not told to its end may be in any loss since."""


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A request as one rank told it."""

    ledger: RankLedger
    story: Story


def evidence_of(
    engine: str, witnessed: Witnessed, siblings: dict[str, Story | None], clock_steps: Iterable[int]
) -> Evidence:
    """``siblings``: the same request as the other ranks of its group told it, None where one never did.

    ``clock_steps``: monotonic times at which the wall clock was stepped.
    """
    ledger, story = witnessed.ledger, witnessed.story
    admit = named(story.admit) if story.admit is not None else {}
    reads = [load.read for load in story.loads if load.read is not None]
    return Evidence(
        request_id=ledger.request_id(story.rid),
        engine=engine,
        rank=ledger.identity.rank,
        recorder=_recorder(ledger, story, clock_steps),
        lookup=_lookup(story),
        load_back=_load_back(story),
        residency=_residency(ledger, reads),
        provenance=_provenance(ledger, reads),
        transfers=transfers_of(ledger, story),
        attribution=_attribution(admit),
        content=_content(story),
        ranks=tuple(_rank_view(rank, other) for rank, other in sorted(siblings.items())),
        admitted_ns=story.admitted_ns,
        first_token_ns=story.first_token_ns,
        prompt_tokens=_known(admit.get("prompt_tokens")),
        computed_tokens=_known(admit.get("computed_tokens")),
        page_size=ledger.identity.page_size,
    )


def expects_content(ledger: RankLedger) -> bool:
    return ledger.identity.content_mode in ("sampled", "full")


def _known(number: int | None) -> int | None:
    return None if number == ABSENT else number


def _recorder(ledger: RankLedger, story: Story, clock_steps: Iterable[int]) -> Recorder:
    backups = [share.backup for load in story.loads if load.read is not None for share in load.read.shares]
    # without its lookup it is not known when the request began: anything lost before may have been part of it
    first = min([story.first_seq, *(backup.seq for backup in backups)]) if story.lookup is not None else 0
    began_ns = min(
        [load.t_ns for load in (*backups, *story.loads)] + [row[T_NS] for row in (story.lookup, story.admit) if row],
        default=0,
    )
    last = story.last_seq
    return Recorder(
        watching=ledger.watching and story.lookup is not None,
        lost_records=ledger.lost_between(first, last if story.told(content_expected=False) else _EVER),
        lookups=story.lookups,
        reset_in_window=any(first <= seq <= last for seq in ledger.resets),
        weights_changed=any(first <= seq <= last for seq in ledger.weights),
        engine_restarted=ledger.ended and not story.told(content_expected=False),
        clock_stepped=any(began_ns <= step_ns <= story.last_ns for step_ns in clock_steps),
    )


def _lookup(story: Story) -> Lookup | None:
    if story.lookup is None:
        return None
    numbers = named(story.lookup)
    return Lookup(
        prompt_tokens=numbers["prompt_tokens"],
        device_tokens=numbers["device_tokens"],
        host_tokens=max(numbers["host_tokens"], 0),
        storage_tokens=_known(numbers["storage_tokens"]),
        node_id=max(numbers["node_id"], -1),
        at_ns=story.lookup[T_NS],
    )


def _load_back(story: Story) -> LoadBack | None:
    if story.load_back is None:
        return None
    numbers = named(story.load_back)
    return LoadBack(
        promised_tokens=max(numbers["promised_tokens"], 0),
        loaded_tokens=numbers["loaded_tokens"],
        outcome=OUTCOME_NAMES.get(numbers["outcome"], "unknown"),
        node_id=max(numbers["node_id"], -1),
        threshold=_known(numbers["threshold"]),
        quota=_known(numbers["quota"]),
        evicted_tokens=max(numbers["evicted_tokens"], 0),
        at_ns=story.load_back[T_NS],
    )


def _residency(ledger: RankLedger, reads: list[SlotsRead]) -> Residency | None:
    known = [read for read in reads if read.shares]
    if not known:
        return None
    finished = [share.backup.move.done_ns for read in known for share in read.shares if share.backup.move is not None]
    left = [read.left_at_ns for read in known if read.left_at_ns is not None]
    watched = ledger.watching_eviction
    return Residency(
        backed_up_tokens=sum(read.known - read.unfinished_tokens for read in known),
        unfinished_backup_tokens=sum(read.unfinished_tokens for read in known),
        left_device_tokens=sum(read.left_tokens for read in known) if watched else None,
        node_seen_leaving=all(read.node_left for read in known) if watched else None,
        returned_since=any(read.returned for read in known),
        backed_up_at_ns=max((at for at in finished if at is not None), default=None),
        left_device_at_ns=max(left, default=None),
    )


def _provenance(ledger: RankLedger, reads: list[SlotsRead]) -> Provenance | None:
    if not reads:
        return None
    tokens: dict[tuple[int, bytes, int], int] = {}
    for read in reads:
        for share in read.shares:
            backup = share.backup
            written = backup.move.done_ns if backup.move is not None else None
            key = (backup.identifier, backup.rid, backup.t_ns if written is None else written)
            tokens[key] = tokens.get(key, 0) + share.tokens
    writers = (
        Writer(request_id=ledger.request_id(rid) or None, operation_id=identifier, tokens=count, written_at_ns=written)
        for (identifier, rid, written), count in tokens.items()
    )
    return Provenance(
        slots_read=sum(read.slots for read in reads),
        slots_known=sum(read.known for read in reads),
        writers=tuple(writers),
    )


def moves_of(story: Story) -> dict[Move, int]:
    """The transfers that carried blocks of the request, with the tokens that it asked for in each."""
    tokens: dict[Move, int] = {}
    for load in story.loads:
        if load.move is not None:
            tokens[load.move] = tokens.get(load.move, 0) + load.tokens
    return tokens


def transfers_of(ledger: RankLedger, story: Story) -> tuple[Transfer, ...] | None:
    """None: nothing would be known of them, or one is still to come."""
    if not ledger.watching_loads or _still_to_come(story):
        return None
    return tuple(_transfer(ledger, move, tokens) for move, tokens in moves_of(story).items())


def _still_to_come(story: Story) -> bool:
    """A load waits for its transfer, and nothing says that the engine has gone on without one: it may be suspended."""
    waits = any(load.move is None for load in story.loads)
    return waits and story.first_token_ns is None and story.finish is None


def _transfer(ledger: RankLedger, move: Move, request_tokens: int) -> Transfer:
    tokens, size = move.volume(ledger.identity.bytes_per_token)
    return Transfer(
        transfer_id=move.identifier,
        tokens=tokens,
        request_tokens=request_tokens,
        bytes=size,
        queued_ns=move.queued_ns,
        submitted_ns=move.submitted_ns,
        finished_ns=move.done_ns if move.finished else None,
        finished=move.finished,
        device_seconds=None if move.device_ns is None else move.device_ns / 1e9,
        requests=max(move.requests, 1),
    )


def _attribution(admit: dict[str, int]) -> Attribution | None:
    if not admit:
        return None
    return Attribution(
        device_tokens=_known(admit["device_tokens"]),
        host_tokens=_known(admit["host_tokens"]),
        storage_tokens=_known(admit["storage_tokens"]),
        cached_tokens=_known(admit["cached_tokens"]),
        source="scheduler",
    )


def _content(story: Story) -> Content | None:
    """The checks of all its transfers together; rows of a finished transfer that has none count as unseen."""
    moves = [(move, tokens) for move, tokens in moves_of(story).items() if move.finished]
    checks = [move.content for move, _ in moves if move.content is not None]
    if not checks:
        return None
    return Content(
        checked=sum(check.checked for check in checks),
        mismatched=sum(check.mismatched for check in checks),
        unseen=sum(check.unseen for check in checks) + sum(tokens for move, tokens in moves if move.content is None),
        mode="full" if all(check.mode == ContentMode.FULL for check in checks) else "sampled",
        layers=min(check.layers for check in checks),
    )


def _rank_view(rank: str, story: Story | None) -> RankView:
    if story is None:
        return RankView(rank=rank, host_tokens=None, loaded_tokens=None)
    content = _content(story)
    return RankView(
        rank=rank,
        host_tokens=_known(named(story.admit)["host_tokens"]) if story.admit is not None else None,
        loaded_tokens=sum(moves_of(story).values()),
        mismatched=content.mismatched if content is not None else None,
        unseen=content.unseen if content is not None else None,
    )
