"""What flows between device and host, how fast, and what does not."""

from __future__ import annotations

from hicache_dashboards.queries import needs
from hicache_dashboards.queries.model import Query
from hicache_dashboards.queries.vocabulary import (
    add,
    chosen,
    each_increase,
    each_rate,
    first_of,
    increase,
    mean,
    quantile,
    rate,
    share,
    share_now,
)
from hicache_exporter import names

UP, DOWN = {"direction": "host_to_device"}, {"direction": "device_to_host"}
HOST_EVICTED = {"cause": "host_evicted"}

_LOADED_HOUR = add(
    first_of(each_increase(names.ENGINE_LOAD_BACK_TOKENS, window="1h"), each_increase(names.TRANSFER_TOKENS, UP, "1h"))
)
_BACKED_UP_HOUR = add(
    first_of(each_increase(names.ENGINE_BACKUP_TOKENS, window="1h"), each_increase(names.TRANSFER_TOKENS, DOWN, "1h"))
)

HEALTH = Query(
    f"2 * ({_LOADED_HOUR} > bool 0) + ({_LOADED_HOUR} == bool 0) * ({_BACKED_UP_HOUR} == bool 0)",
    "L2",
    instant=True,
)
"""2 = it is read, 1 = neither written nor read, 0 = written and never read; over the last hour."""
YIELD = Query(share_now(_LOADED_HOUR, _BACKED_UP_HOUR), "read ÷ written", instant=True)

BACKED_UP = Query(
    add(first_of(each_rate(names.ENGINE_BACKUP_TOKENS), each_rate(names.TRANSFER_TOKENS, DOWN))), "backed up to L2"
)
LOADED_BACK = Query(
    add(first_of(each_rate(names.ENGINE_LOAD_BACK_TOKENS), each_rate(names.TRANSFER_TOKENS, UP))), "loaded back from L2"
)
LEFT_L1 = Query(rate(names.ENGINE_EVICTED_TOKENS), "left L1")
LEFT_L2 = Query(rate(names.EVICTED_TOKENS, matchers=HOST_EVICTED), "left L2", optional=needs.PLUGIN)

BYTES = Query(rate(names.TRANSFER_BYTES, "direction"), "{{direction}}", optional=needs.PLUGIN)
BYTES_ENGINE_UP = Query(rate(names.ENGINE_LOAD_BACK_BYTES), "host_to_device, engine", optional=needs.BYTE_COUNTERS)
BYTES_ENGINE_DOWN = Query(rate(names.ENGINE_BACKUP_BYTES), "device_to_host, engine", optional=needs.BYTE_COUNTERS)
TRANSFERS = Query(rate(names.TRANSFERS, "direction"), "{{direction}}", optional=needs.PLUGIN)
TRANSFERS_DROPPED = Query(
    increase(names.TRANSFERS_DROPPED, "direction", window="$__rate_interval"),
    "{{direction}} dropped by a flush",
    optional=needs.PLUGIN,
)
BANDWIDTH = Query(
    share(rate(names.TRANSFER_TIMED_BYTES, "direction"), rate(names.TRANSFER_SECONDS, "direction", part="sum")),
    "{{direction}}",
    optional=needs.TIMED_COPIES,
)
PCIE_BYTES = Query(rate(names.PCIE_BYTES, "direction"), "{{direction}}, over the bus", optional=needs.GPU)
PCIE_SHARE = Query(
    share(
        rate(names.TRANSFER_BYTES, matchers=UP),
        rate(names.PCIE_BYTES, matchers=UP),
    ),
    "claimed ÷ crossed, host to device",
    optional=needs.GPU,
)
PCIE_GAPS = Query(increase(names.PCIE_UNSAFE_GAPS, "gpu", window="$__rate_interval"), "{{gpu}}", optional=needs.GPU)
LINK_LANES = Query(chosen(names.PCIE_LANES), "{{gpu}} lanes {{state}}", instant=True, optional=needs.GPU)
LINK_GENERATION = Query(chosen(names.PCIE_GENERATION), "{{gpu}} generation {{state}}", instant=True, optional=needs.GPU)
PCIE_REPLAYS = Query(rate(names.PCIE_REPLAYS, "gpu"), "{{gpu}}", optional=needs.GPU)

DURATION_HEATMAP = Query(
    rate(names.TRANSFER_SECONDS, "le", matchers=UP, part="bucket"),
    "{{le}}",
    buckets=True,
    exemplars=True,
    optional=needs.TIMED_COPIES,
)
ENGINE_LOAD_BACK = Query(
    mean(names.ENGINE_LOAD_BACK_SECONDS, "clock"), "engine's own, {{clock}} clock", optional=needs.LOAD_BACK
)
ENGINE_BACKUP = Query(mean(names.ENGINE_BACKUP_SECONDS), "backup, engine's own", optional=needs.BACKUP)


def duration(q: float) -> Query:
    return Query(
        quantile(q, names.TRANSFER_SECONDS, "direction"),
        f"{{{{direction}}}} p{q * 100:g}",
        optional=needs.TIMED_COPIES,
    )


def wait(q: float) -> Query:
    return Query(
        quantile(q, names.LOAD_BACK_WAIT), f"p{q * 100:g}", exemplars=True, optional="needs the plugin and a load-back"
    )


OUTCOMES = Query(rate(names.LOAD_BACKS, "outcome"), "{{outcome}}", optional=needs.PLUGIN)
PROMISED = Query(rate(names.LOAD_BACK_PROMISED), "promised by the lookup", optional=needs.PLUGIN)
LOADED_FOR_REQUESTS = Query(rate(names.LOAD_BACK_LOADED), "loaded for requests", optional=needs.PLUGIN)
POOL_LOAD_BACK = Query(rate(names.ENGINE_POOL_LOAD_BACK, "pool"), "{{pool}} loaded back", optional=needs.LOAD_BACK)
POOL_BACKUP = Query(rate(names.ENGINE_POOL_BACKUP, "pool"), "{{pool}} backed up", optional=needs.BACKUP)
RESETS = Query(increase(names.RESETS, window="$__rate_interval"), "resets", optional=needs.PLUGIN)
