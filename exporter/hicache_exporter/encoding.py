"""The text that a scraper asked for.

prometheus_client decides what that is, and says in a test byte for byte how it looks. It looks at every letter that
may have to be escaped, at every scrape: most of what a scrape took. Here what a sample's line looks like is worked out
once for its name and the names of its labels, which hardly ever change; the values are filled in.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.samples import Exemplar
from prometheus_client.utils import floatToGoString

Encoder = Callable[[list[Metric]], bytes]

MAX_FORMS = 4096
GZIP = 31
_PLAIN_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN_FAMILY = ("_created", "_gsum", "_gcount")
"""Samples that plain text shows as families of their own; none of ours ends so."""
_TEXT_TYPES = {"counter": "counter", "gauge": "gauge", "histogram": "histogram", "info": "gauge"}
_TEXT_SUFFIXES = {"counter": "_total", "info": "_info"}


def choose(accept: str) -> tuple[Encoder, str]:
    """Encoder and content type for an Accept header."""
    encode, content_type = exposition.choose_encoder(accept)
    keywords = encode.keywords if isinstance(encode, partial) else {}
    if keywords.get("escaping", openmetrics.UNDERSCORES) in (openmetrics.UNDERSCORES, openmetrics.ALLOWUTF8):
        if (encode.func if isinstance(encode, partial) else encode) is openmetrics.generate_latest:
            return partial(_openmetrics, encode), content_type
        return partial(_text, encode), content_type
    return lambda metrics: encode(_Families(metrics)), content_type


class _Families:
    """What prometheus_client's encoders want of a registry."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _openmetrics(library: Callable[[Any], bytes], metrics: Iterable[Metric]) -> bytes:
    parts = []
    for metric in metrics:
        name = metric.name
        unit = f"# UNIT {name} {metric.unit}\n" if metric.unit else ""
        head = f"# HELP {name} {_escape(metric.documentation)}\n# TYPE {name} {metric.type}\n{unit}"
        lines = _lines(metric, exemplars=True)
        parts.append(head + lines if lines is not None else _by(library, metric).removesuffix("# EOF\n"))
    parts.append("# EOF\n")
    return "".join(parts).encode()


def compressed(body: bytes) -> bytes:
    """As gzip. The default level takes three times as long, to save a sixth."""
    packer = zlib.compressobj(level=1, wbits=GZIP)
    return packer.compress(body) + packer.flush()


def _text(library: Callable[[Any], bytes], metrics: Iterable[Metric]) -> bytes:
    parts = []
    for metric in metrics:
        name, kind = metric.name + _TEXT_SUFFIXES.get(metric.type, ""), _TEXT_TYPES.get(metric.type)
        told = metric.documentation.replace("\\", r"\\").replace("\n", r"\n")
        lines = _lines(metric, exemplars=False) if kind else None
        head = f"# HELP {name} {told}\n# TYPE {name} {kind}\n"
        parts.append(head + lines if lines is not None else _by(library, metric))
    return "".join(parts).encode()


def _by(library: Callable[[Any], bytes], metric: Metric) -> str:
    return library(_Families([metric])).decode()


def _lines(metric: Metric, *, exemplars: bool) -> str | None:
    """The samples of a family; None where there is something about it that only the library knows how to write."""
    if not _PLAIN_NAME.fullmatch(metric.name):
        return None
    lines = []
    for name, labels, value, timestamp, exemplar, histogram in metric.samples:
        form = _form(name, *labels)
        if form is None or timestamp is not None or histogram is not None:
            return None
        if exemplar is not None and not name.endswith("_bucket"):
            return None
        pattern, values_of = form
        text = "".join(labels.values())
        if '"' in text or "\\" in text or "\n" in text:
            labels = {label: _escape(given) for label, given in labels.items()}
        filled = pattern % values_of(labels)
        number = repr(float(value)) if -1e300 < value < 1e6 else _number(value)
        shown = _exemplar(exemplar) if exemplar is not None and exemplars else ""
        lines.append(f"{filled}{number}{shown}\n")
    return "".join(lines)


@lru_cache(maxsize=MAX_FORMS)
def _form(name: str, *labels: str) -> tuple[str, Callable[[dict[str, str]], Any]] | None:
    """What stands before a sample's value, to be filled with its label values, and what takes these out of its labels.

    None: not all of its names are plain.
    """
    if name.endswith(_OWN_FAMILY) or not all(map(_PLAIN_NAME.fullmatch, (name, *labels))):
        return None
    ordered = sorted(labels)
    if not ordered:
        return f"{name} ", lambda _labels: ()
    return f"{name}{{" + ",".join(f'{label}="%s"' for label in ordered) + "} ", itemgetter(*ordered)


def _exemplar(exemplar: Exemplar) -> str:
    labels = ",".join(f'{label}="{_escape(value)}"' for label, value in sorted(exemplar.labels.items()))
    at = "" if exemplar.timestamp is None else f" {exemplar.timestamp}"
    return f" # {{{labels}}} {_number(exemplar.value)}{at}"


def _number(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
