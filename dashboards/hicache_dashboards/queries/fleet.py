"""Many engines at once: who is up, who is whole, who stands out."""

from __future__ import annotations

from hicache_dashboards.queries import tiers
from hicache_dashboards.queries.model import Query
from hicache_dashboards.queries.vocabulary import (
    TARGET,
    chosen,
    count,
    highest,
    increase,
    lowest,
    mean,
    quantile,
    rate,
    total,
)
from hicache_exporter import names

ALERTS_FIRING = Query(
    f'sum by (alertname, severity, engine, instance) (ALERTS{{alertstate="firing",alertname=~"HiCache.+",{TARGET}}})',
    "{{alertname}} {{engine}}",
    instant=True,
    optional="empty while nothing fires",
)
ENGINES = Query(
    highest(
        names.ENGINE_INFO, "instance", "engine", "version", "model", "write_policy", "tp_size", "dp_size", "storage"
    ),
    "{{engine}}",
    instant=True,
)
ENGINES_UP = Query(total(names.ENGINE_UP), "up", instant=True)
ENGINES_KNOWN = Query(count(names.ENGINE_UP), "watched", instant=True)
UP = Query(lowest(names.ENGINE_UP, "instance", "engine"), "{{engine}} ({{instance}})")
SIDECARS_UP = Query(
    f"min by (instance) (up{{{TARGET}}} and on (job) last_over_time({chosen(names.BUILD_INFO)}[1d]))", "{{instance}}"
)
HIT_RATE = tiers.hit_rate_of_each_engine()
TTFT_P95 = Query(quantile(0.95, names.ENGINE_TTFT, "instance", "engine"), "{{engine}} ({{instance}})")
TTFT_MEAN = Query(mean(names.ENGINE_TTFT, "instance", "engine"), "{{engine}} ({{instance}})")
PROMPT_RATE = Query(rate(names.ENGINE_PROMPT_TOKENS, "instance", "engine"), "{{engine}} ({{instance}})")
RUNNING = Query(total(names.ENGINE_RUNNING, "instance", "engine"), "{{engine}} running")
QUEUED = Query(total(names.ENGINE_QUEUED, "instance", "engine"), "{{engine}} queued")
FINISHED = Query(rate(names.ENGINE_FINISHED_REQUESTS, "instance", "engine"), "{{engine}} ({{instance}})")
QUEUE = Query(mean(names.ENGINE_QUEUE_SECONDS, "instance", "engine"), "{{engine}} ({{instance}})")
INFO_READ = Query(lowest(names.ENGINE_INFO_READ, "instance", "engine"), "{{engine}} ({{instance}})")
GENERATED = Query(rate(names.ENGINE_GENERATION_TOKENS, "instance", "engine"), "{{engine}} generated")
RANKS_EXPECTED = Query(total(names.ENGINE_RANKS_EXPECTED, "reporter"), "{{reporter}} expected")
RANKS_SEEN = Query(total(names.ENGINE_RANKS_SEEN, "reporter"), "{{reporter}} seen")
RANK_BASIS = Query(highest(names.ENGINE_RANK_BASIS, "engine", "family", "basis"), "{{family}} {{basis}}", instant=True)
FAMILIES_MISSING = Query(
    highest(names.ENGINE_FAMILY_MISSING, "engine", "family", "flag") + " == 1",
    "{{family}} {{flag}}",
    instant=True,
    optional="empty if the engine exports all that is expected",
)
RESTARTS = Query(increase(names.ENGINE_RESTARTS, "engine", window="$__rate_interval"), "{{engine}} restarted")
BACKWARD_STEPS = Query(
    increase(names.ENGINE_BACKWARD_STEPS, "engine", window="$__rate_interval"), "{{engine}} counter fell"
)
SCRAPE_SECONDS = Query(highest(names.ENGINE_SCRAPE_SECONDS, "engine"), "{{engine}}")
SCRAPE_FAILURES = Query(increase(names.ENGINE_SCRAPE_FAILURES, "reason", window="$__rate_interval"), "{{reason}}")
UNREADABLE = Query(total(names.ENGINE_UNREADABLE_LINES, "engine"), "{{engine}} unreadable lines")
COLLECTORS = Query(lowest(names.COLLECTOR_SUCCESS, "collector"), "{{collector}}")
COLLECTOR_SECONDS = Query(highest(names.COLLECTOR_SECONDS, "collector"), "{{collector}}")
SCRAPES_REFUSED = Query(increase(names.SCRAPES_REFUSED, window="$__rate_interval"), "refused")
SIDECARS = Query(highest(names.BUILD_INFO, "instance", "version", "python"), "{{instance}}", instant=True)
TARGETS_FILE = Query(
    chosen(names.ENGINE_TARGETS_FILE_OK), "{{file}}", instant=True, optional="only with a targets file"
)
