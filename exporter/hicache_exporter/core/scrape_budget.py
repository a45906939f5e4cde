"""How long a scrape may wait for what it asks."""

from __future__ import annotations

import math

DEFAULT_SECONDS = 5.0
"""Without a word from the scraper; half of Prometheus's own default."""
LONGEST_SECONDS = 60.0
SHORTEST_SECONDS = 0.05
MARGIN = 0.1
"""Share kept back for writing the answer and sending it, but at most half a second."""


def scrape_budget(header: str | None) -> float:
    """Seconds, from ``X-Prometheus-Scrape-Timeout-Seconds``; anything unusable in it counts as absent."""
    try:
        timeout = float(header or "")
    except ValueError:
        return DEFAULT_SECONDS
    if not math.isfinite(timeout) or timeout <= 0:
        return DEFAULT_SECONDS
    return min(LONGEST_SECONDS, max(SHORTEST_SECONDS, timeout - min(0.5, timeout * MARGIN)))
