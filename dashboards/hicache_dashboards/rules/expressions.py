"""The vocabulary of the rules: rates and increases that drop exactly the labels that a family adds.

``without`` keeps whatever the target carries (cluster, namespace, purpose), so routing labels survive into the alerts.
"""

from __future__ import annotations

from collections.abc import Mapping

from hicache_dashboards.promql import own_labels, select
from hicache_exporter.names import Family

ENGINE = "on (job, instance, engine)"
"""Matches series of one engine, whatever else they are labelled with."""
TARGET = "on (job, instance)"
"""Matches series of one sidecar, and so of one host."""


def rate(
    family: Family, window: str, keep: tuple[str, ...] = (), matchers: Mapping[str, str] | None = None, part: str = ""
) -> str:
    return _combined("sum", family, keep, f"rate({select(family, matchers, part)}[{window}])", part)


def increase(
    family: Family, window: str, keep: tuple[str, ...] = (), matchers: Mapping[str, str] | None = None, part: str = ""
) -> str:
    return _combined("sum", family, keep, f"increase({select(family, matchers, part)}[{window}])", part)


def level(
    family: Family, how: str = "sum", keep: tuple[str, ...] = (), matchers: Mapping[str, str] | None = None
) -> str:
    """A gauge, combined over the labels not kept. A matcher with one value fixes its label, and so drops it."""
    return _combined(how, family, keep, select(family, matchers))


def occurred(
    family: Family, window: str, memory: str, keep: tuple[str, ...] = (), matchers: Mapping[str, str] | None = None
) -> str:
    """How often in the window, if at all.

    Two steps are invisible to increase(): a counter that appears already above 0, and one that comes back higher after
    nobody could read it for longer than the window. ``memory``: how long its last value is remembered for that.
    """
    series = select(family, matchers)
    before = f"last_over_time({series}[{memory}] offset {window})"
    grown = f"round(increase({series}[{window}])) > 0"
    steps = f"{grown}\nor {series} - {before} > 0\nor ({series} > 0 unless {before})"
    return f"{_combined('sum', family, keep, f'({steps})')} > 0"


def median(series: str, window: str, ago: str) -> str:
    """What the series usually was: robust against an incident inside the window."""
    return f"quantile_over_time(0.5, {series}[{window}] offset {ago})"


def either(preferred: str, otherwise: str) -> str:
    """Two sources of the same number, for engines where one of them is missing."""
    return f"({preferred})\nor {ENGINE}\n({otherwise})"


def _combined(how: str, family: Family, keep: tuple[str, ...], expression: str, part: str = "") -> str:
    dropped = [label for label in own_labels(family, part) if label not in keep]
    return f"{how} without ({', '.join(dropped)}) ({expression})" if dropped else expression
