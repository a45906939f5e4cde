"""The verdict of a run in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_proof.lab.run import Measured

PROVEN = ("proven", "corroborated")


def sentence(deciding: Measured, content: str, reads: Sequence[Measured]) -> str:
    judgement = deciding.judgement
    prompt = deciding.reply.prompt_tokens
    host = (deciding.evidence.attribution or deciding.evidence.reply or deciding.reply.attribution).host_tokens
    if judgement.verdict in PROVEN:
        read = f"series C was read from host RAM (L2) after L1 had been emptied: {host:,} of {prompt:,} prompt tokens"
        proven = sum(one.judgement.verdict in PROVEN for one in reads)
        times = f"in {proven} of {len(reads)} repetitions"
        if content == "damaged":
            return f"Damaged: {read}, {times}, {_damage(reads)}."
        intact = sum(one.judgement.content == "intact" for one in reads)
        state = "and its content was not checked"
        if content == "intact":
            state = "and what was read is what was stored"
        elif intact:
            state = f"and its content was checked in only {intact} of them"
        return f"{judgement.verdict.capitalize()}: {read}, {times}, {state}."
    if judgement.verdict == "consistent":
        return (
            "Not proven: the numbers of series C are consistent with reuse from host RAM (L2), "
            "but witnesses that a proof needs are missing or silent."
        )
    if judgement.verdict == "contradicted":
        return f"Not proven: two witnesses disagree about series C. {judgement.reasons[0]}"
    if judgement.verdict == "no_read":
        tier = {"device": "from L1 (GPU memory)", "none": "by computing it again"}.get(judgement.served_by, "otherwise")
        return f"No L2 read: series C was served {tier}. {judgement.reasons[0]}"
    return f"Not proven: nobody observed how series C was served. {judgement.reasons[0]}"


def _damage(reads: Sequence[Measured]) -> str:
    if any(one.judgement.content == "damaged" for one in reads):
        return "and what was read is not what was stored"
    return "but an answer of series D or E, or to the planted markers, is not the one that was given before the read"
