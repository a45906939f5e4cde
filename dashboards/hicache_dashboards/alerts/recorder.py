"""Does the flight recorder see everything? What it loses can't be proven."""

from __future__ import annotations

from hicache_dashboards.alerts.model import Alert
from hicache_dashboards.alerts.template import ENGINE, INSTANCE, value
from hicache_dashboards.config import Settings
from hicache_dashboards.promql import select
from hicache_dashboards.rules.expressions import level, occurred
from hicache_exporter import names


def alerts(settings: Settings) -> list[Alert]:
    w = settings.windows
    return [
        Alert(
            name="HiCacheRecordsLost",
            area="recorder",
            severity="warning",
            board="hicache-proof",
            expr=occurred(names.RECORDS_LOST, w.event, w.trend, keep=("reason",)),
            summary=(
                f"{value()} records of {ENGINE} were lost in {w.event} ({{{{ $labels.reason }}}}):"
                " what they told can't be proven."
            ),
            action="Check that the sidecar gets CPU time, then enlarge the ring.",
        ),
        Alert(
            name="HiCacheRecorderDown",
            area="recorder",
            severity="warning",
            board="hicache-proof",
            wait=w.brief,
            expr=f"{select(names.RECORDER_UP)} == 0",
            summary=f"The flight recorder of rank {{{{ $labels.rank }}}} of {ENGINE} is gone.",
            action="See whether that scheduler process is alive and still owns its ring file.",
        ),
        Alert(
            name="HiCacheSeamSwitchedOff",
            area="recorder",
            severity="warning",
            board="hicache-proof",
            wait=w.brief,
            expr=level(names.SEAM_STATE, keep=("seam",), matchers={"state": "tripped"}) + " > 0",
            summary=f"Seam {{{{ $labels.seam }}}} of {ENGINE} switched itself off after faults, on {value()} ranks.",
            action="Verdicts that need this seam fall to not_observed; look for its fault in the engine's log.",
        ),
        Alert(
            name="HiCacheSeamUnrecognised",
            area="recorder",
            severity="info",
            board="hicache-proof",
            wait=w.sustained,
            expr=level(names.SEAM_STATE, keep=("seam",), matchers={"state": "unrecognised"}) + " > 0",
            summary=f"Seam {{{{ $labels.seam }}}} does not know the engine function of {ENGINE} and left it alone.",
            action="See the compatibility table for this engine version.",
        ),
        Alert(
            name="HiCacheRingRefused",
            area="recorder",
            severity="warning",
            board="hicache-proof",
            wait=w.brief,
            expr=f"{select(names.RINGS_REFUSED)} > 0",
            summary=f"{INSTANCE} refuses to read {value()} files of its ring folder ({{{{ $labels.reason }}}}).",
            action="Check who owns the ring folder, its permissions, and that plugin and sidecar are of one version.",
        ),
    ]
