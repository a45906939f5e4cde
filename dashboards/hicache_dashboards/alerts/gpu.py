"""Are the GPUs there, and does anybody know?"""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert
from hicache_dashboards.alerts.template import INSTANCE, value
from hicache_dashboards.config import Settings
from hicache_dashboards.promql import number, ratio, select
from hicache_dashboards.rules.expressions import TARGET
from hicache_exporter import names

STUCK = {"state": "=~hung|stale|failed"}
"""Not the states in which there is nothing to ask: no driver, no library, no GPU."""
GPU = f"{{{{ $labels.gpu }}}} of {INSTANCE}"


def alerts(settings: Settings) -> list[Alert]:
    w, machine = settings.windows, settings.machine
    free = f"({select(names.GPU_MEMORY_SIZE)} - {select(names.GPU_MEMORY_USED)})"
    return [
        Alert(
            name="HiCacheGpuLost",
            area="gpu",
            severity="critical",
            board="hicache-machine",
            wait=w.brief,
            expr=f"{select(names.GPU_PRESENT)} == 0",
            summary=f"GPU {GPU} has not answered for {w.brief}: off the bus, hung, or taken away.",
            action="Read the kernel log for Xid errors before anything is restarted.",
        ),
        Alert(
            name="HiCacheGpuProbeStuck",
            area="gpu",
            severity="warning",
            board="hicache-machine",
            wait=w.brief,
            expr=(
                f"{select(names.GPU_REPORT_AGE)} > {number(machine.report_age_seconds)}\n"
                f"and {TARGET} {select(names.GPU_SOURCE, STUCK)} == 1"
            ),
            summary=f"What {INSTANCE} knows of its GPUs is {value('humanizeDuration')} old: the driver hangs.",
            action="Try nvidia-smi on the host with a timeout; engine metrics and verdicts go on without it.",
        ),
        Alert(
            name="HiCacheGpuMemoryLow",
            area="gpu",
            severity="warning",
            board="hicache-machine",
            wait=w.sustained,
            expr=f"{ratio(free, select(names.GPU_MEMORY_SIZE))} < {number(machine.gpu_memory_headroom)}",
            summary=f"GPU {GPU} has {value('humanizePercentage')} of its memory free.",
            action="See what holds it; HiCache stages copies on the GPU and is one candidate.",
        ),
    ]
