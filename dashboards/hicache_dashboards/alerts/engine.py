"""Is the engine there, whole, and working?"""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert
from hicache_dashboards.alerts.template import ENGINE, value
from hicache_dashboards.config import Settings
from hicache_dashboards.promql import select
from hicache_dashboards.rules.expressions import ENGINE as SAME_ENGINE
from hicache_dashboards.rules.expressions import increase
from hicache_exporter import names


def alerts(settings: Settings) -> list[Alert]:
    return [_down(settings), _stalled(settings), _ranks_missing(settings), _family_missing(settings)]


def _down(s: Settings) -> Alert:
    return Alert(
        name="HiCacheEngineDown",
        area="engine",
        severity="critical",
        board="hicache-fleet",
        wait=s.windows.brief,
        expr=f"{select(names.ENGINE_UP)} == 0",
        summary=f"The metrics of {ENGINE} can't be read for {s.windows.brief}.",
        action="See the reason of the failed reads, then the engine's health.",
    )


def _stalled(s: Settings) -> Alert:
    """Requests run, and not one token was computed, read from a cache or generated meanwhile."""
    window = s.windows.recent
    prefilled = increase(names.ENGINE_PREFILL_TOKENS, window)
    generated = increase(names.ENGINE_GENERATION_TOKENS, window)
    running = select(names.ENGINE_RUNNING)
    return Alert(
        name="HiCacheEngineStalled",
        area="engine",
        severity="critical",
        board="hicache-fleet",
        wait=s.windows.brief,
        expr=f"min_over_time({running}[{window}]) > 0\nand {generated} == 0\nand {prefilled} == 0",
        summary=f"{ENGINE} holds {value()} running requests and has not produced a token for {window}.",
        action="Take a stack of the scheduler before you restart it.",
    )


def _ranks_missing(s: Settings) -> Alert:
    return Alert(
        name="HiCacheRanksMissing",
        area="engine",
        severity="warning",
        board="hicache-fleet",
        wait=s.windows.sustained,
        expr=f"{select(names.ENGINE_RANKS_EXPECTED)} - {select(names.ENGINE_RANKS_SEEN)} > 0",
        summary=f"{value()} of the ranks of {ENGINE} don't report ({{{{ $labels.reporter }}}}).",
        action="Check --enable-metrics-for-all-schedulers, then the processes of the missing ranks.",
    )


def _family_missing(s: Settings) -> Alert:
    """Gone since at most a day, from an engine that was watched before: what an upgrade took away."""
    missing = select(names.ENGINE_FAMILY_MISSING)
    ago = f"offset {s.windows.baseline}"
    return Alert(
        name="HiCacheEngineFamilyMissing",
        area="engine",
        severity="warning",
        board="hicache-fleet",
        wait=s.windows.sustained,
        expr=(f"{missing} == 1\nunless {missing} {ago} == 1\nand {SAME_ENGINE} {select(names.ENGINE_UP)} {ago} == 1"),
        summary=f"{ENGINE} no longer exports {{{{ $labels.family }}}} (wants {{{{ $labels.flag }}}}).",
        action="Compare the engine's version and flags with those before the upgrade.",
    )
