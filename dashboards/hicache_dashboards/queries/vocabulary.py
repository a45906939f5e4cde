"""The vocabulary of the boards: PromQL over what the board's variables select, added up over engines and ranks."""

from __future__ import annotations

from collections.abc import Mapping

from hicache_dashboards.promql import has_engine, select
from hicache_exporter.names import Family

Matchers = Mapping[str, str] | None

TARGET = 'job=~"$job",instance=~"$instance"'
RATE = "$__rate_interval"
RANGE = "$__range"


def selection(family: Family) -> str:
    """The matchers of the board's variables that this family has labels for."""
    engine = ',engine=~"$engine"' if has_engine(family) else ""
    rank = ',rank=~"$rank"' if "rank" in family.labels else ""
    return TARGET + engine + rank


def chosen(family: Family, matchers: Matchers = None, part: str = "") -> str:
    """The family's series themselves, one for each engine and label."""
    return select(family, matchers, part, selection(family))


def each_rate(family: Family, matchers: Matchers = None, part: str = "", window: str = RATE, ago: str = "") -> str:
    """Per second, of each series."""
    return f"rate({chosen(family, matchers, part)}[{window}]{_offset(ago)})"


def each_increase(family: Family, matchers: Matchers = None, window: str = RANGE) -> str:
    return f"increase({chosen(family, matchers)}[{window}])"


def first_of(preferred: str, otherwise: str) -> str:
    """Engine by engine: the preferred source where there is one, so that a mixed fleet is counted whole and once."""
    return f"{preferred} or on (job, instance, engine) {otherwise}"


def add(expression: str, *by: str) -> str:
    return _added_up("sum", by, expression)


def rate(family: Family, *by: str, matchers: Matchers = None, part: str = "", window: str = RATE, ago: str = "") -> str:
    """Per second, added up."""
    return add(each_rate(family, matchers, part, window, ago), *by)


def increase(family: Family, *by: str, matchers: Matchers = None, window: str = RANGE) -> str:
    return add(each_increase(family, matchers, window), *by)


def occurrences(family: Family, *by: str, matchers: Matchers = None) -> str:
    """How many in the time range, as whole numbers: an increase is extrapolated."""
    return f"round({increase(family, *by, matchers=matchers)})"


def total(family: Family, *by: str, matchers: Matchers = None) -> str:
    """A gauge that adds up, such as tokens or bytes."""
    return _added_up("sum", by, chosen(family, matchers))


def highest(family: Family, *by: str, matchers: Matchers = None) -> str:
    return _added_up("max", by, chosen(family, matchers))


def lowest(family: Family, *by: str, matchers: Matchers = None) -> str:
    return _added_up("min", by, chosen(family, matchers))


def count(family: Family, *by: str, matchers: Matchers = None) -> str:
    return _added_up("count", by, chosen(family, matchers))


def mean(family: Family, *by: str, matchers: Matchers = None, window: str = RATE, ago: str = "") -> str:
    """Mean of a histogram. Without observations there is no sample."""
    summed = rate(family, *by, matchers=matchers, part="sum", window=window, ago=ago)
    counted = rate(family, *by, matchers=matchers, part="count", window=window, ago=ago)
    return f"{summed} / ({counted} > 0)"


def quantile(q: float, family: Family, *by: str, matchers: Matchers = None, window: str = RATE, ago: str = "") -> str:
    """Quantile of a histogram. Without observations it is NaN, which is drawn as a gap and named "no traffic"."""
    buckets = rate(family, "le", *by, matchers=matchers, part="bucket", window=window, ago=ago)
    return f"histogram_quantile({q}, {buckets})"


def share(part: str, whole: str, matching: str = "") -> str:
    """For lines: no sample without traffic."""
    return f"{part} /{' ' + matching if matching else ''} ({whole} > 0)"


def share_now(part: str, whole: str) -> str:
    """For a single number: NaN without traffic, so that the panel can tell "no traffic" from "no data"."""
    return f"{part} / {whole}"


def _added_up(how: str, by: tuple[str, ...], expression: str) -> str:
    return f"{how} by ({', '.join(by)}) ({expression})" if by else f"{how}({expression})"


def _offset(ago: str) -> str:
    return f" offset {ago}" if ago else ""
