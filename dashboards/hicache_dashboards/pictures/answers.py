"""Asks a Prometheus what a panel asks, with the board's variables set to everything."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from hicache_dashboards.queries.model import Query

EVERYTHING = {"$job": ".+", "$instance": ".+", "$model": ".*", "$engine": ".+", "$rank": ".*"}


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    labels: dict[str, str]
    times: list[float]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Window:
    """Unix seconds; ``scrape``: how often Prometheus scrapes."""

    start: float
    end: float
    scrape: float
    points: int = 300

    @property
    def step(self) -> float:
        return max(self.scrape, (self.end - self.start) / self.points)


class Prometheus:
    """Its HTTP API, without a proxy."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._opener = build_opener(ProxyHandler({}))

    def ask(self, query: Query, window: Window) -> list[Series]:
        expr = self._filled(query.expr, window)
        if query.instant:
            result = self._api("query", query=expr, time=window.end)
            return [_series(query, item["metric"], [item["value"]]) for item in result]
        result = self._api("query_range", query=expr, start=window.start, end=window.end, step=window.step)
        return [_series(query, item["metric"], item["values"]) for item in result]

    def _filled(self, expr: str, window: Window) -> str:
        rate = max(4 * window.scrape, window.step + window.scrape)
        durations = {"$__rate_interval": f"{rate:.0f}s", "$__range": f"{window.end - window.start:.0f}s"}
        for name, value in {**durations, **EVERYTHING}.items():
            expr = expr.replace(name, value)
        return expr

    def _api(self, what: str, **parameters: object) -> list[dict[str, object]]:
        with self._opener.open(f"{self._url}/api/v1/{what}?{urlencode(parameters)}", timeout=60) as reply:
            result: list[dict[str, object]] = json.load(reply)["data"]["result"]
        return result


def _series(query: Query, labels: object, samples: object) -> Series:
    assert isinstance(labels, dict)
    assert isinstance(samples, list)
    name = re.sub(r"\{\{(\w+)\}\}", lambda match: labels.get(match[1], ""), query.legend)
    return Series(name, labels, [float(t) for t, _ in samples], [float(v) for _, v in samples])
