"""Reads what an SGLang engine answers on /metrics: Prometheus text 0.0.4 or OpenMetrics 1.0.

Only the samples that the caller names are read; all others are skipped after a look at their name. Names come out
without their prefix, so ``sglang:cached_tokens_total`` and ``sglang_cached_tokens_total`` (what prometheus-client
0.23 and later send to some scrapers) are one family.

A text that was cut off is refused as a whole: half a number is still a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

PREFIXES = ("sglang:", "sglang_")

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*+")
_QUOTED = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NUMBER = r"[-+]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][-+]?[0-9]++)?|[iI][nN][fF](?:inity)?|[nN][aA][nN])"
# Possessive throughout: a hostile line costs one pass and no backtracking.
_TAIL = re.compile(
    rf"""(?:[ \t]*+\{{((?:[^"}}]++|{_QUOTED})*+)\}}[ \t]*+|[ \t]++)  # labels, or a blank
    ({_NUMBER})(?=[ \t\r]|$)                                      # value
    (?:[ \t]++{_NUMBER}(?=[ \t\r]|$))?[ \t\r]*+(?:\#[ ]\{{.*)?$    # timestamp, exemplar: neither is used
    """,
    re.VERBOSE,
)
_HEAD = re.compile(rf"""([a-zA-Z_:][a-zA-Z0-9_:]*+)(?:\{{((?:[^"}}]++|{_QUOTED})*+)\}})?""")
_ONLY_NUMBER = re.compile(_NUMBER)
_PLAIN_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*+)="([^"\\]*+)"')
_PLAIN_LABELS = re.compile(r'(?:[a-zA-Z_][a-zA-Z0-9_]*+="[^"\\]*+"(?:,(?!$)|$))*+')
_LABEL = re.compile(rf"[ \t]*+([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+({_QUOTED})[ \t]*+(?:,|$)")
_ESCAPE = re.compile(r'\\([\\n"])')

Labels = Mapping[str, str]


class Sample(NamedTuple):
    labels: Labels
    value: float


class TruncatedError(ValueError):
    """The text ends before its end: no final line feed, or no ``# EOF`` in OpenMetrics."""


class EncodingError(ValueError):
    """The bytes are not UTF-8, the only encoding of both formats."""


@dataclass(frozen=True, slots=True)
class EngineText:
    samples: Mapping[str, tuple[Sample, ...]]
    """By sample name without prefix (``queue_time_seconds_bucket``), in the order of the text."""
    unreadable: int = 0
    """Lines that are neither a comment nor a sample, or a wanted sample that could not be read."""
    engine_families: bool = False
    """Some line bears the engine's prefix: this is an engine's answer, even where nothing wanted is in it."""

    def of(self, name: str) -> tuple[Sample, ...]:
        return self.samples.get(name, ())


def spellings(names: Iterable[str]) -> dict[str, str]:
    """Every way an engine spells each of these sample names, mapped to the name without prefix."""
    return {prefix + name: name for name in names for prefix in PREFIXES}


def read(body: bytes, wanted: Mapping[str, str], *, openmetrics: bool = False) -> EngineText:
    """Read the samples that ``wanted`` (see ``spellings``) names.

    Raises TruncatedError or EncodingError. Anything less is counted in ``unreadable``.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EncodingError(str(error)) from None
    _refuse_truncated(text, openmetrics)
    return _Reader(wanted).read(text)


def _refuse_truncated(text: str, openmetrics: bool) -> None:
    if openmetrics and not text.rstrip("\r\n").endswith("# EOF"):
        raise TruncatedError("no # EOF at the end")
    if text and not openmetrics and not text.endswith("\n"):
        raise TruncatedError("the last line has no end")


class _Reader:
    """One pass over one text. Keeps raw label texts until the end: most repeat, and each is taken apart once."""

    def __init__(self, wanted: Mapping[str, str]) -> None:
        self._wanted = wanted
        self._raw: dict[str, dict[str, float]] = {}
        self._skip: set[str] = set()
        self._labels: dict[str, Labels | None] = {}
        self._unreadable = 0

    def read(self, text: str) -> EngineText:
        skip, wanted, raw, is_number = self._skip, self._wanted, self._raw, _ONLY_NUMBER.fullmatch
        for line in text.split("\n"):
            if line[:1] == "#":
                continue
            brace = line.find("{")
            if brace >= 0 and line[:brace] in skip:
                continue
            head, _, number = line.rpartition(" ")
            known = _head(head) if len(head) <= _USUAL else None
            if known is None or not is_number(number):
                self._line(line)
            elif (name := wanted.get(known[0])) is None:
                skip.add(known[0])
            else:
                raw.setdefault(name, {})[known[1]] = float(number)
        samples = {name: self._samples(raw) for name, raw in self._raw.items()}
        ours = bool(samples) or any(name.startswith(PREFIXES) for name in skip)
        return EngineText(samples, self._unreadable, ours)

    def _line(self, line: str) -> None:
        """With a timestamp, an exemplar, or blanks of its own."""
        found = _NAME.match(line)
        tail = _TAIL.match(line, found.end()) if found else None
        if found is None or tail is None:
            self._other_line(line)
            return
        name = self._wanted.get(found[0])
        if name is None:
            self._skip.add(found[0])
        else:
            # A series that is given twice would count twice: the last one stands.
            self._raw.setdefault(name, {})[tail[1] or ""] = float(tail[2])

    def _other_line(self, line: str) -> None:
        stripped = line.strip(" \t\r")
        if stripped and stripped[0] != "#":
            if stripped != line:
                self._line(stripped)
            else:
                self._unreadable += 1

    def _samples(self, raw: Mapping[str, float]) -> tuple[Sample, ...]:
        samples = []
        for text, value in raw.items():
            if text not in self._labels:
                self._labels[text] = parse_labels(text)
            labels = self._labels[text]
            if labels is None:
                self._unreadable += 1
            else:
                samples.append(Sample(labels, value))
        return tuple(samples)


def parse_labels(text: str) -> Labels | None:
    """Labels between the braces of a sample; None where they can't be read."""
    return _known(text) if len(text) <= _USUAL else _parse(text)


def _parse(text: str) -> Labels | None:
    if not _PLAIN_LABELS.fullmatch(text):
        return _parse_unusual_labels(text)
    pairs = _PLAIN_LABEL.findall(text)
    labels = dict(pairs)
    return labels if len(labels) == len(pairs) else None


_USUAL = 2048
"""Characters: longer ones are not kept."""
_known = lru_cache(maxsize=2048)(_parse)
"""An engine repeats its label texts at every scrape; about 400 of them are wanted."""


@lru_cache(maxsize=4096)
def _head(text: str) -> tuple[str, str] | None:
    """Name and label text in what stands before a value: most lines are that, a blank and a number, and of these all
    but the number are the same at every scrape. None: something else.
    """
    found = _HEAD.fullmatch(text)
    return (found[1], found[2] or "") if found else None


def _parse_unusual_labels(text: str) -> Labels | None:
    """The same with escapes, blanks or a comma at the end."""
    labels: dict[str, str] = {}
    text = text.strip(" \t")
    position = 0
    while position < len(text):
        found = _LABEL.match(text, position)
        if found is None or found[1] in labels:
            return None
        labels[found[1]] = _ESCAPE.sub(_unescape, found[2][1:-1])
        position = found.end()
    return labels


def _unescape(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
