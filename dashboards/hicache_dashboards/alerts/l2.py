"""Does the host tier work, and is it worth its memory?"""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert
from hicache_dashboards.alerts.template import ENGINE, recorded, value
from hicache_dashboards.config import Settings
from hicache_dashboards.promql import number, ratio, select
from hicache_dashboards.rules import l2
from hicache_dashboards.rules.expressions import ENGINE as SAME_ENGINE
from hicache_dashboards.rules.expressions import level
from hicache_exporter import names

HOST = {"tier": "host"}


def alerts(settings: Settings) -> list[Alert]:
    return [
        _inert(settings),
        _low_yield(settings),
        _thrashing(settings),
        _declined(settings),
        _destroyed(settings),
        _pool_full(settings),
        _slow_transfers(settings),
    ]


def _inert(s: Settings) -> Alert:
    floor = number(s.traffic.moved_tokens_per_trend)
    return Alert(
        name="HiCacheL2Inert",
        area="l2",
        severity="warning",
        board="hicache-overview",
        wait=s.windows.sustained,
        expr=f"{l2.LOADED_BACK} == 0\nand {l2.BACKED_UP} > {floor}\nand {l2.EVICTED} > {floor}",
        summary=(
            f"L2 of {ENGINE} is written and never read: {recorded(l2.BACKED_UP)} tokens backed up and"
            f" {recorded(l2.EVICTED)} evicted from L1 in {s.windows.trend}, {value()} loaded back."
        ),
        action="Run `hicache-witness doctor` against the engine: it names the first broken stage.",
    )


def _low_yield(s: Settings) -> Alert:
    floor = number(s.traffic.moved_tokens_per_trend)
    return Alert(
        name="HiCacheL2LowYield",
        area="l2",
        severity="info",
        board="hicache-overview",
        wait=s.windows.trend,
        expr=f"{l2.L2_YIELD} < {number(s.l2.least_yield)}\nand {l2.L2_YIELD} > 0\nand {l2.BACKED_UP_LONG} > {floor}",
        summary=(
            f"L2 of {ENGINE} gives back {value('humanizePercentage')} of what is written to it:"
            f" {recorded(l2.BACKED_UP_LONG)} tokens backed up in {s.l2.yield_window}."
        ),
        action="Compare the reuse gap with the time that a page survives in L2.",
    )


def _thrashing(s: Settings) -> Alert:
    capacity = level(names.ENGINE_CAPACITY, matchers=HOST)
    return Alert(
        name="HiCacheL2Thrashing",
        area="l2",
        severity="warning",
        board="hicache-tiers",
        wait=s.windows.sustained,
        expr=f"{ratio(l2.HOST_EVICTED, capacity)} > {number(s.l2.turnover_per_trend)}",
        summary=f"L2 of {ENGINE} was replaced {value()} times over in {s.windows.trend}.",
        action="Enlarge L2 or write less to it: see the runbook for the arithmetic.",
    )


def _declined(s: Settings) -> Alert:
    return Alert(
        name="HiCacheLoadBackDeclined",
        area="l2",
        severity="warning",
        board="hicache-transfers",
        wait=s.windows.sustained,
        expr=(
            f"{l2.DECLINED_RATIO} > {number(s.l2.declined)}"
            f"\nand {l2.DECLINED} > {number(s.traffic.load_backs_per_trend)}"
        ),
        summary=(
            f"{ENGINE} declined {value('humanizePercentage')} of its load-backs in {s.windows.trend}"
            f" ({recorded(l2.DECLINED)} times) although L2 had the tokens."
        ),
        action="See the declined load-backs by outcome.",
    )


def _destroyed(s: Settings) -> Alert:
    """Not under write_through_selective, where only a prefix seen twice is backed up by design."""
    selective = select(names.ENGINE_INFO, {"write_policy": "write_through_selective"})
    return Alert(
        name="HiCacheKvDestroyedWithoutBackup",
        area="l2",
        severity="warning",
        board="hicache-tiers",
        wait=s.windows.sustained,
        expr=(
            f"{ratio(l2.DESTROYED, l2.EVICTED)} > {number(s.l2.destroyed)}"
            f"\nand {l2.DESTROYED} > {number(s.traffic.moved_tokens_per_trend)}"
            f"\nunless {SAME_ENGINE} {selective}"
        ),
        summary=(
            f"{value('humanizePercentage')} of the tokens that left L1 of {ENGINE} in {s.windows.trend} had no copy in"
            f" L2: {recorded(l2.DESTROYED)} tokens to compute again."
        ),
        action="Check refused backups, then whether the prompts are longer than the chunked prefill size.",
    )


def _pool_full(s: Settings) -> Alert:
    """A full cache is a good cache; a full pool that refuses backups is not."""
    used, capacity = level(names.ENGINE_USED, matchers=HOST), level(names.ENGINE_CAPACITY, matchers=HOST)
    return Alert(
        name="HiCacheHostPoolExhausted",
        area="l2",
        severity="warning",
        board="hicache-tiers",
        wait=s.windows.sustained,
        expr=f"{ratio(used, capacity)} > {number(s.l2.pool_full)}\nand {l2.BACKUPS_REFUSED} > 0",
        summary=(
            f"The host pool of {ENGINE} is {value('humanizePercentage')} full and refused"
            f" {recorded(l2.BACKUPS_REFUSED)} backups in {s.windows.trend}."
        ),
        action="Look for pages that can't be evicted: loads in flight, backups to L3, protected nodes.",
    )


def _slow_transfers(s: Settings) -> Alert:
    labels = ("job", "instance", "engine", "direction")
    return Alert(
        name="HiCacheTransfersSlow",
        area="l2",
        severity="warning",
        board="hicache-transfers",
        wait=s.windows.sustained,
        expr=(
            f"{l2.BANDWIDTH_RECENT} < {number(s.l2.bandwidth)} * {l2.BANDWIDTH_BASELINE}"
            f"\nand {l2.TRANSFER_RATE_RECENT} > {number(s.traffic.transfer_bytes_per_second)}"
        ),
        summary=(
            f"Transfers {{{{ $labels.direction }}}} of {ENGINE} run at {value('humanize1024')}B/s,"
            f" usually {recorded(l2.BANDWIDTH_BASELINE, 'humanize1024', labels)}B/s."
        ),
        action="Check PCIe width and generation, NUMA placement, and whether the host pool is still pinned.",
    )
