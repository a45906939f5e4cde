"""What flows into L2, out of it and back, in tokens over the trend window."""

from __future__ import annotations

from hicache_dashboards.config import Settings
from hicache_dashboards.promql import ratio
from hicache_dashboards.rules.expressions import either, increase, median, rate
from hicache_dashboards.rules.model import Recording
from hicache_exporter import names

BACKED_UP = "hicache:backup_tokens:increase_trend"
LOADED_BACK = "hicache:load_back_tokens:increase_trend"
EVICTED = "hicache:evicted_tokens:increase_trend"
DESTROYED = "hicache:destroyed_tokens:increase_trend"
HOST_EVICTED = "hicache:host_evicted_tokens:increase_trend"
BACKUPS_REFUSED = "hicache:backups_refused:increase_trend"
BACKED_UP_LONG = "hicache:backup_tokens:increase_yield"
L2_YIELD = "hicache:l2_yield_ratio:increase_yield"
DECLINED = "hicache:load_backs_declined:increase_trend"
DECLINED_RATIO = "hicache:load_backs_declined_ratio:increase_trend"
TRANSFER_RATE_RECENT = "hicache:transfer_bytes:rate_recent"
BANDWIDTH_RECENT = "hicache:transfer_bandwidth_bytes_per_second:recent"
BANDWIDTH_BASELINE = "hicache:transfer_bandwidth_bytes_per_second:baseline"

UP, DOWN = {"direction": "host_to_device"}, {"direction": "device_to_host"}
DECLINES = {"outcome": "!~loaded|below_threshold"}
"""A prefix under the engine's own threshold is not meant to be loaded, so it is no decline."""


def recordings(settings: Settings) -> list[Recording]:
    w, long = settings.windows, settings.l2.yield_window
    return [
        Recording(BACKED_UP, _backed_up(w.trend)),
        Recording(LOADED_BACK, _loaded_back(w.trend)),
        Recording(EVICTED, _evicted(w.trend)),
        Recording(DESTROYED, _destroyed(w.trend)),
        Recording(HOST_EVICTED, increase(names.EVICTED_TOKENS, w.trend, matchers={"cause": "host_evicted"})),
        Recording(BACKUPS_REFUSED, increase(names.BACKUPS_REFUSED, w.trend)),
        Recording(BACKED_UP_LONG, _backed_up(long)),
        Recording(L2_YIELD, ratio(f"({_loaded_back(long)})", BACKED_UP_LONG)),
        Recording(DECLINED, increase(names.LOAD_BACKS, w.trend, matchers=DECLINES)),
        Recording(DECLINED_RATIO, ratio(DECLINED, increase(names.LOAD_BACKS, w.trend))),
        Recording(TRANSFER_RATE_RECENT, rate(names.TRANSFER_BYTES, w.recent, ("direction",))),
        Recording(BANDWIDTH_RECENT, _bandwidth(w.recent)),
        Recording(BANDWIDTH_BASELINE, median(BANDWIDTH_RECENT, w.baseline, w.trend)),
    ]


def _backed_up(window: str) -> str:
    recorder = increase(names.TRANSFER_TOKENS, window, matchers=DOWN)
    return either(increase(names.ENGINE_BACKUP_TOKENS, window), recorder)


def _loaded_back(window: str) -> str:
    recorder = increase(names.TRANSFER_TOKENS, window, matchers=UP)
    return either(increase(names.ENGINE_LOAD_BACK_TOKENS, window), recorder)


def _evicted(window: str) -> str:
    recorder = increase(names.EVICTED_TOKENS, window, matchers={"cause": "=~demoted|dropped"})
    return either(increase(names.ENGINE_EVICTED_TOKENS, window), recorder)


def _destroyed(window: str) -> str:
    recorder = increase(names.EVICTED_TOKENS, window, matchers={"cause": "dropped"})
    return either(increase(names.ENGINE_DROPPED_TOKENS, window), recorder)


def _bandwidth(window: str) -> str:
    """Bytes over time spent copying, on the device clock: idle time does not dilute it."""
    direction = ("direction",)
    copying = rate(names.TRANSFER_SECONDS, window, direction, part="sum")
    return ratio(rate(names.TRANSFER_TIMED_BYTES, window, direction), copying)
