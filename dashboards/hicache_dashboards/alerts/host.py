"""Does the machine keep the memory that L2 lives in?"""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert
from hicache_dashboards.alerts.template import ENGINE, INSTANCE, value
from hicache_dashboards.config import Settings
from hicache_dashboards.promql import number, ratio
from hicache_dashboards.rules import machine
from hicache_dashboards.rules.expressions import level
from hicache_exporter import names


def alerts(settings: Settings) -> list[Alert]:
    return [_host_low(settings), _pressure(settings), _cgroup_low(settings), _pinning_lost(settings)]


def _host_low(s: Settings) -> Alert:
    available, whole = (level(names.HOST_MEMORY, matchers={"kind": kind}) for kind in ("available", "total"))
    return Alert(
        name="HiCacheHostMemoryLow",
        area="host",
        severity="warning",
        board="hicache-machine",
        wait=s.windows.brief,
        expr=f"{ratio(available, whole)} < {number(s.machine.host_memory_headroom)}",
        summary=f"{INSTANCE} has {value('humanizePercentage')} of its memory available.",
        action="Add up the host pools of all ranks: each takes its own, and they are pinned.",
    )


def _pressure(s: Settings) -> Alert:
    waiting = level(names.HOST_PRESSURE, "max", matchers={"kind": "some", "window": "300s"})
    return Alert(
        name="HiCacheMemoryPressure",
        area="host",
        severity="info",
        board="hicache-machine",
        wait=s.windows.sustained,
        expr=f"{waiting} > {number(s.machine.memory_pressure)}",
        summary=f"Tasks on {INSTANCE} wait for memory {value('humanizePercentage')} of the time.",
        action="Look for swapping and for other tenants of the machine.",
    )


def _cgroup_low(s: Settings) -> Alert:
    headroom, limit = (level(names.RANK_CGROUP, "min", ("rank",), {"kind": kind}) for kind in ("headroom", "limit"))
    return Alert(
        name="HiCacheCgroupMemoryLow",
        area="host",
        severity="warning",
        board="hicache-machine",
        wait=s.windows.brief,
        expr=f"{ratio(headroom, limit)} < {number(s.machine.cgroup_headroom)}",
        summary=(
            f"The container of rank {{{{ $labels.rank }}}} of {ENGINE} has"
            f" {value('humanizePercentage')} of its memory limit left."
        ),
        action="Raise the limit or shrink L2: the kernel kills the engine when it is reached.",
    )


def _pinning_lost(s: Settings) -> Alert:
    """It was pinned within the last day and is not now. Where pinning can't be seen, nothing is said."""
    least = number(s.machine.pinned)
    return Alert(
        name="HiCachePinningLost",
        area="host",
        severity="warning",
        board="hicache-machine",
        wait=s.windows.brief,
        expr=(
            f"{machine.PINNED_RATIO} < {least}\n"
            f"and max_over_time({machine.PINNED_RATIO}[{s.windows.baseline}]) >= {least}"
        ),
        summary=(
            f"Only {value('humanizePercentage')} of the L2 of rank {{{{ $labels.rank }}}} of {ENGINE} is pinned;"
            " it was all of it."
        ),
        action="Copies run slower and pages may be swapped: restart the engine with a memlock limit that fits.",
    )
