"""Numbers as Grafana would write them, for the units that the boards use."""

from __future__ import annotations

import math

SI = ("", "k", "M", "G", "T")
IEC = ("", "Ki", "Mi", "Gi", "Ti")
SUFFIX = {"Bps": "B/s", "watt": "W", "joule": "J", "reqps": "req/s", "short": "", "none": ""}


def text(value: float, unit: str) -> str:
    if math.isnan(value):
        return "no traffic"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return _seconds(value)
    if unit == "celsius":
        return f"{value:.0f} °C"
    if unit == "bytes":
        return f"{_scaled(value, 1024, IEC)}B"
    suffix = unit.removeprefix("si:") if unit.startswith("si:") else SUFFIX.get(unit, unit)
    return _scaled(value, 1000, SI) + suffix


def _seconds(value: float) -> str:
    for factor, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {name}" if value < 120 else _minutes(value / 60)
    return "0 s"


def _minutes(value: float) -> str:
    return f"{value:.3g} min" if value < 120 else f"{value / 60:.3g} h"


def _scaled(value: float, base: int, prefixes: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= base and power < len(prefixes) - 1:
        value, power = value / base, power + 1
    return f"{value:.3g} {prefixes[power]}"
