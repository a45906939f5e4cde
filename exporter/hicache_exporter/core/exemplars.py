"""Exemplars of requests that SGLang does not trace: their trace is ours, and known once its spans are exported."""

from __future__ import annotations

from hicache_exporter.core.counting import DIRECTION_NAMES
from hicache_exporter.core.observed import Sampled
from hicache_exporter.core.operations import Move
from hicache_exporter.core.rank_ledger import RankLedger
from hicache_exporter.core.story import Story
from hicache_exporter.core.testimony import moves_of


def mark_request(ledger: RankLedger, story: Story, trace_id: int) -> None:
    """What was observed of a request, and of the transfers that served it, now names the request's trace."""
    if story.ttft_seconds is not None and story.first_token_ns is not None:
        at = ledger.clock.wall(story.first_token_ns)
        ledger.totals.ttft[story.serving].mark(Sampled(story.ttft_seconds, f"{trace_id:032x}", at))
    for move in moves_of(story):
        mark_transfer(ledger, move, trace_id)


def mark_transfer(ledger: RankLedger, move: Move, trace_id: int) -> None:
    """``trace_id``: of a request that the transfer served, or that started it."""
    if move.finished and move.device_ns is not None and move.done_ns is not None:
        observed = ledger.totals.transfer_seconds[DIRECTION_NAMES[move.direction]]
        observed.mark(Sampled(move.device_ns / 1e9, f"{trace_id:032x}", ledger.clock.wall(move.done_ns)))
