"""Where a rule does not hold, and why. An exception that nothing needs any more is itself a finding."""

_HOUR = "compares whole hours, whatever the zoom"
_NOW = "a statement about the last hour, whatever the time range"
_BURN = "a burn rate is defined over its window"

FIXED_WINDOWS = {
    ("hicache-overview", "L2"): _NOW,
    ("hicache-overview", "Cold against L2 hit"): _NOW,
    ("hicache-overview", "Hit rate against yesterday and last week"): _HOUR,
    ("hicache-transfers", "Read for each token written"): _NOW,
    ("hicache-ttft", "Mean, now and before"): _HOUR,
    ("hicache-ttft", "95th percentile, now and before"): _HOUR,
    ("hicache-ttft", "Times slower than before"): _HOUR,
    ("hicache-ttft", "Burn rate"): _BURN,
    ("hicache-fleet", "Sidecars over time"): "remembers for a day which jobs are sidecars, so that a dead one is shown",
    ("hicache-storage", "Fetched of what was found"): _NOW,
}
"""Board and panel to the reason why a query has a window of its own."""

UNSHOWN_FAMILIES = {"hicache_engine_target": "carries the labels of a targets file, to be joined by who wrote them"}
"""Family to the reason why neither a board nor an alert looks at it."""
