"""Verdicts, content checks, and the health of what they rest on."""

from __future__ import annotations

from hicache_dashboards.queries import needs
from hicache_dashboards.queries.model import Query
from hicache_dashboards.queries.vocabulary import highest, increase, lowest, occurrences, rate, share_now, total
from hicache_exporter import names

PROVEN = {"verdict": "=~corroborated|proven"}
CLAIMED = {"verdict": "!=no_read"}

PROVEN_SHARE = Query(
    share_now(increase(names.VERDICTS_TOTAL, matchers=PROVEN), increase(names.VERDICTS_TOTAL, matchers=CLAIMED)),
    "proven or corroborated",
    instant=True,
    optional=needs.PLUGIN,
)
VERDICTS = Query(rate(names.VERDICTS_TOTAL, "verdict"), "{{verdict}}", optional=needs.PLUGIN)
VERDICTS_COUNT = Query(occurrences(names.VERDICTS_TOTAL, "verdict"), "{{verdict}}", instant=True, optional=needs.PLUGIN)
CONTRADICTED = Query(
    occurrences(names.VERDICTS_TOTAL, matchers={"verdict": "contradicted"}),
    "contradicted",
    instant=True,
    optional=needs.PLUGIN,
)
NOT_OBSERVED = Query(
    share_now(increase(names.VERDICTS_TOTAL, matchers={"verdict": "not_observed"}), increase(names.VERDICTS_TOTAL)),
    "not observed",
    instant=True,
    optional=needs.PLUGIN,
)
DAMAGED = Query(
    occurrences(names.CONTENT_TOTAL, matchers={"content": "damaged"}), "damaged", instant=True, optional=needs.PLUGIN
)
CONTENT = Query(rate(names.CONTENT_TOTAL, "content"), "{{content}}", optional=needs.PLUGIN)
CONTENT_TOKENS = Query(rate(names.CONTENT_SLOTS, "state"), "{{state}}", optional=needs.CONTENT)

RECORDER_UP = Query(lowest(names.RECORDER_UP, "engine", "rank"), "{{engine}} rank {{rank}}", optional=needs.PLUGIN)
RECORDS = Query(rate(names.RECORDS, "rank"), "rank {{rank}}", optional=needs.PLUGIN)
RECORDS_LOST = Query(
    increase(names.RECORDS_LOST, "reason", window="$__rate_interval"), "{{reason}}", optional=needs.PLUGIN
)
RECORDER_FILL = Query(highest(names.RECORDER_LAG, "rank"), "rank {{rank}}", optional=needs.PLUGIN)
SEAMS = Query(
    total(names.SEAM_STATE, "seam", "state") + " > 0", "{{state}} {{seam}}", instant=True, optional=needs.PLUGIN
)
SEAM_STATES = Query(total(names.SEAM_STATE, "state"), "{{state}}", optional=needs.PLUGIN)
SEAMS_SILENT = Query(
    highest(names.SEAM_FIRED, "seam") + " == 0",
    "{{seam}}",
    instant=True,
    optional="empty once every seam has fired",
)
SEAM_FAULTS = Query(increase(names.SEAM_FAULTS, "seam", window="$__rate_interval"), "{{seam}}", optional=needs.PLUGIN)
FORGOTTEN = Query(rate(names.LEDGER_FORGOTTEN, "what"), "{{what}}", optional=needs.PLUGIN)
RINGS = Query(total(names.RINGS, "state"), "{{state}}", instant=True)
RINGS_REFUSED = Query(
    total(names.RINGS_REFUSED, "reason"), "{{reason}}", instant=True, optional="empty while every ring is readable"
)
SPANS = Query(rate(names.SPANS, "outcome"), "{{outcome}}")
SPAN_EXPORT = Query(highest(names.SPAN_EXPORT, "state") + " > 0", "{{state}}", instant=True)
