"""TraceQL that finds the spans behind a panel, by the names that the sidecar gives them."""

from __future__ import annotations

from hicache_exporter.core import span_names


def _named(name: str) -> str:
    return f'{{ name = "{name}" }}'


def hit(tier: str) -> str:
    return _named(span_names.HIT.format(tier=tier))


def transfer(direction: str) -> str:
    return _named(span_names.TRANSFER.format(direction=direction))


ANY = f'{{ name =~ "{span_names.REQUEST.split(".")[0]}.*" }}'
ANY_HIT = f'{{ name =~ "{span_names.HIT.format(tier=".*")}" }}'
CONTRADICTED = f'{{ span.{span_names.VERDICT} = "contradicted" }}'
DAMAGED = f'{{ span.{span_names.CONTENT} = "damaged" }}'
