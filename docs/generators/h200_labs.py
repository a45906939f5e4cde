"""The lab's runs on an H200: their reports, judged again by today's rules, as the tables of the H200 report."""

from __future__ import annotations

import lzma
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hicache_proof.evidence import Evidence
from hicache_proof.lab.ladder import Rung
from hicache_proof.lab.run import LabRun, Measured
from hicache_proof.stats import Effect, Summary
from hicache_proof.verdict import judge
from hicache_proof.witnesses import physical

from .markdown import table

FOLDER = Path(__file__).resolve().parents[1] / "h200"
NAMES = {"hiradix": "HiRadixCache", "unified": "UnifiedRadixCache", "tp2": "TP 2"}
SERIES = ("A", "B", "C", "D", "control")


class Lab(NamedTuple):
    name: str
    """Engine, tree and way of copying."""
    page: str
    """The whole report, beside this page."""
    run: LabRun
    proofs: tuple[dict[str, Any], ...]
    """What the sidecar said of the latest requests when the run was over, the ladder's among them."""

    @property
    def decided(self) -> list[Measured]:
        return [measured for measured in self.run.requests if measured.series == "C"]


@cache
def labs() -> tuple[Lab, ...]:
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.json.xz"), key=_stem) if ".proofs." not in path.name)


def _read(path: Path) -> Lab:
    """Raises ValueError where today's rules judge a read of L2 otherwise than the report says."""
    run = msgspec.json.decode(lzma.decompress(path.read_bytes()), type=LabRun)
    stem = _stem(path)
    version, *how = (NAMES.get(part, part) for part in stem.split("-"))
    lab = Lab(f"{version} {', '.join(how)}", f"h200/{stem}.html", run, _proofs(path))
    for measured in lab.decided:
        today = judge(measured.evidence)
        if (today.verdict, today.content) != (measured.judgement.verdict, measured.judgement.content):
            raise ValueError(f"{path.name}: {measured.evidence.request_id} is {today.verdict}, {today.content} by now")
    return lab


def _stem(path: Path) -> str:
    return path.name.removesuffix(".json.xz")


def _proofs(report: Path) -> tuple[dict[str, Any], ...]:
    path = report.with_name(report.name.replace(".json.xz", ".proofs.json.xz"))
    return tuple(msgspec.json.decode(lzma.decompress(path.read_bytes()))["proofs"])


def parts() -> dict[str, str]:
    return {
        "labs": series(),
        "counted": counted(),
        "witnesses": witnesses(),
        "ranks": ranks(),
        "ladders": ladders(),
    }


def series() -> str:
    head = ("SGLang", *(f"{name}, ms" for name in SERIES), "control / C", "verdict on C", "report")
    rows = []
    for lab in labs():
        times = [_milliseconds(lab.run.ttft[name]) for name in SERIES]
        outcome = lab.run.outcome
        rows.append(
            (lab.name, *times, _ratio(lab.run.effect), f"{outcome.verdict}, {outcome.content}", f"[whole]({lab.page})")
        )
    return table(head, rows)


def counted() -> str:
    """Of each run, the verdicts on all its reads of L2: those of series C, and those of the ladder."""
    lines = []
    for lab in labs():
        found = Counter((one.judgement.verdict, one.judgement.content) for one in lab.decided)
        rungs = [one for one in lab.proofs if one["request_id"].endswith("-ladder") and one["host_tokens"]]
        found += Counter((one["verdict"], one["content"]) for one in rungs)
        told = ", ".join(f"{count} {verdict}, {content}" for (verdict, content), count in found.most_common())
        lines.append(f"- {lab.name}: {found.total()} reads of L2, of them {told}")
    return "\n".join(lines)


def witnesses() -> str:
    """What those say that do not go by the engine's accounts, of every read of series C."""
    head = ("SGLang", "tokens", "device clock", "bytes claimed", "bytes over the bus", "ratio", "rows equal")
    return table(head, [_witnessed(lab, measured) for lab in labs() for measured in lab.decided])


def _witnessed(lab: Lab, measured: Measured) -> tuple[str, ...]:
    evidence = measured.evidence
    (copy,), (_, bus), content = evidence.transfers or (), physical.by_rank(evidence)[0], evidence.content
    if copy.device_seconds is None or content is None or bus is None or bus.crossed is None:
        raise ValueError(f"{evidence.request_id}: no time, no bus or no content")
    equal = content.checked - content.mismatched - content.unseen
    return (
        lab.name,
        f"{copy.tokens:,}",
        f"{copy.device_seconds * 1e3:.2f} ms",
        f"{bus.claimed:,}",
        f"{bus.crossed:,}",
        f"{bus.ratio:.2f}",
        f"{equal:,} of {content.checked:,}",
    )


def ranks() -> str:
    """The same, rank by rank, where an engine has several: each rank's bytes against the bus of its own GPU."""
    head = ("SGLang", "rank", "tokens loaded", "bytes claimed", "bytes over the bus", "ratio", "rows that differ")
    rows = [row for lab in labs() for measured in lab.decided for row in _by_rank(lab, measured.evidence)]
    return table(head, rows)


def _by_rank(lab: Lab, evidence: Evidence) -> list[tuple[str, ...]]:
    if not evidence.ranks:
        return []
    loaded = {view.rank: (view.loaded_tokens, view.mismatched) for view in evidence.ranks}
    if evidence.load_back is None or evidence.content is None:
        raise ValueError(f"{evidence.request_id}: no load-back or no content")
    loaded[evidence.rank] = evidence.load_back.loaded_tokens, evidence.content.mismatched
    rows: list[tuple[str, ...]] = []
    for rank, seen in physical.by_rank(evidence):
        tokens, differ = loaded[rank]
        if seen is None or seen.crossed is None or seen.ratio is None or tokens is None:
            raise ValueError(f"{evidence.request_id}: nobody measured rank {rank}")
        told = "not checked" if differ is None else f"{differ:,}"
        rows.append(
            (lab.name, rank, f"{tokens:,}", f"{seen.claimed:,}", f"{seen.crossed:,}", f"{seen.ratio:.2f}", told)
        )
    return rows


def ladders() -> str:
    """Per run: from which prefix on a read of L2 pays, and the curve behind it."""
    head = ("prefix tokens", "computed, ms", "read from L2, ms", "computed / read", "reads proven")
    found = []
    for lab in labs():
        ladder = lab.run.lengths
        if ladder is None or ladder.break_even is None:
            raise ValueError(f"{lab.name}: no ladder of lengths")
        found += [f"**{lab.name}**: {ladder.break_even.sentence}", table(head, map(_rung, ladder.rungs)).strip()]
    return "\n\n".join(found)


def _rung(rung: Rung) -> tuple[str, ...]:
    proven = f"{rung.proven} of {rung.requests}"
    times = _milliseconds(rung.miss), _milliseconds(rung.read)
    return (f"{rung.prefix_tokens:,}", *times, _ratio(rung.effect), proven)


def _milliseconds(summary: Summary) -> str:
    ms = 1e3 * summary.median
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}"


def _ratio(effect: Effect) -> str:
    if effect.ratio is None or effect.ratio_interval is None:
        return f"none given: {effect.why}"
    low, high = effect.ratio_interval.low, effect.ratio_interval.high
    shown = "" if effect.says != "no_difference" else ", no difference shown"
    return f"{effect.ratio:.2f} ({low:.2f} to {high:.2f}){shown}"
