"""The tables of the H200 report: the rings that were recorded there, read and judged by today's code."""

from __future__ import annotations

from hicache_exporter.judging import Proof

from .markdown import table
from .recordings import Run, runs


def parts() -> dict[str, str]:
    """Name of a marked part of the page to what belongs there."""
    return {"reads": reads(), "prefills": prefills()}


def reads() -> str:
    """One line a read of L2: what the recorder saw, and the verdict."""
    head = ("SGLang", "tokens", "bytes, this rank", "device clock", "rate", "rows that differ", "verdict", "content")
    return table(head, [_read(run, proof) for run in runs() for proof in run.of("C")])


def _read(run: Run, proof: Proof) -> tuple[str, ...]:
    evidence = proof.evidence
    (copy,) = evidence.transfers or ()
    seconds, content = copy.device_seconds, evidence.content
    if seconds is None or content is None:
        raise ValueError(f"{evidence.request_id}: no time or no content")
    differ = content.mismatched + sum(view.mismatched or 0 for view in evidence.ranks)
    return (
        run.name + (" **(one row damaged on purpose)**" if run.planted else ""),
        f"{copy.request_tokens or copy.tokens:,}",
        f"{copy.bytes:,}",
        f"{seconds * 1e3:.2f} ms",
        f"{copy.bytes / seconds / 1e9:.1f} GB/s",
        f"**{differ}**" if differ else "0",
        proof.judgement.verdict,
        proof.judgement.content,
    )


def prefills() -> str:
    """From admission to the first token, as the scheduler saw it, one request each."""
    rows = []
    for run in runs():
        if len(run.rings) > 1 or run.planted:
            continue
        for cold, warm, back in zip(run.of("A"), run.of("B"), run.of("C"), strict=True):
            length = cold.evidence.request_id.rpartition("-")[2]
            rows.append((run.name, f"{int(length):,}", *(_milliseconds(proof) for proof in (cold, warm, back))))
    return table(("SGLang", "prefix", "A: computed", "B: from L1", "C: from L2"), rows)


def _milliseconds(proof: Proof) -> str:
    first, admitted = proof.evidence.first_token_ns, proof.evidence.admitted_ns
    if first is None or admitted is None:
        return "not seen"
    return f"{(first - admitted) / 1e6:,.0f} ms"
