"""From what was observed to the run and its verdict. Pure.

Each request's evidence is the recorder's (from the sidecar), to which the lab adds what only a client can see: the
reply, the engine's counters over the request's window, the answer against the L1 run, the control. Then it is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from hicache_proof import stats
from hicache_proof.evidence import Answer, Control, Counters, Evidence, Recorder
from hicache_proof.lab import marked, run
from hicache_proof.lab.answering import Answering, same
from hicache_proof.lab.answers import Answers
from hicache_proof.lab.engine import EngineFacts, Window
from hicache_proof.lab.markers import Planted
from hicache_proof.lab.reply import Reply
from hicache_proof.lab.run import Measured, Outcome, Series
from hicache_proof.lab.sentences import PROVEN, sentence
from hicache_proof.lab.series import Asked
from hicache_proof.lab.sidecar import NoProof
from hicache_proof.stats import Effect, Summary
from hicache_proof.verdict import judge

# Weakest first: the run is as good as its weakest repetition.
_RANKING = ("contradicted", "not_observed", "no_read", "consistent", "proven", "corroborated")
_CONTENTS = ("damaged", "not_checked", "intact")
ControlKind = Literal["hicache_off", "forced_miss"]


class Judged(NamedTuple):
    requests: tuple[Measured, ...]
    control: run.Control | None
    ttft: dict[str, Summary]
    whole: dict[str, Summary]
    effect: Effect
    outcome: Outcome
    answers: Answers


def conclude(
    asked: Sequence[Asked],
    control: Sequence[Asked],
    facts: EngineFacts,
    control_facts: EngineFacts | None,
    planted: Planted | None = None,
    why_not_planted: str = marked.NOT_PLANTED,
) -> Judged:
    """``control``: what the control engine showed; empty if there is none, then the forced misses are the control."""
    kind: ControlKind = "hicache_off" if control else "forced_miss"
    said = Answering(asked, planted)
    requests = tuple(
        _measured(one, facts.url, said.answer(one), _control(one, control or asked, kind)) for one in asked
    )
    baseline = [one for one in (control or asked) if one.series == ("C" if control else "miss")]
    control_requests = tuple(_measured(one, control_facts.url, None, None) for one in control) if control_facts else ()
    return Judged(
        requests=requests,
        control=run.Control(
            kind=kind,
            engine=control_facts,
            requests=control_requests or tuple(one for one in requests if one.series == "miss"),
        ),
        ttft=_by_series(asked, baseline, lambda reply: reply.ttft_seconds),
        whole=_by_series(asked, baseline, lambda reply: reply.seconds),
        effect=stats.compare(
            _times(asked, "C"),
            [one.reply.ttft_seconds for one in baseline],
            _times(asked, "A"),
            run.CONTROLS[kind],
        ),
        outcome=_outcome(requests),
        answers=said.summary(why_not_planted),
    )


def _measured(asked: Asked, url: str, answer: Answer | None, control: Control | None) -> Measured:
    evidence = msgspec.structs.replace(
        _recorded(asked, url),
        reply=asked.reply.attribution,
        counters=_counters(asked.window, asked.exclusive),
        answer=answer,
        control=control,
    )
    missing = asked.proof.why if isinstance(asked.proof, NoProof) else None
    return Measured(
        series=asked.series,
        repetition=asked.repetition,
        turn=asked.turn,
        reply=asked.reply,
        window=asked.window,
        exclusive=asked.exclusive,
        evidence=evidence,
        judgement=judge(evidence),
        events=() if isinstance(asked.proof, NoProof) else asked.proof.events,
        admitted_at=None if isinstance(asked.proof, NoProof) else asked.proof.summary.at,
        recorder_says=missing,
    )


def _recorded(asked: Asked, url: str) -> Evidence:
    """The sidecar's evidence; without one, evidence in which every witness of the recorder is absent."""
    if not isinstance(asked.proof, NoProof):
        return asked.proof.evidence
    return Evidence(
        request_id=asked.reply.request_id,
        engine=urlsplit(url).netloc,
        rank="",
        recorder=Recorder(watching=False, lost_records=0),
        prompt_tokens=asked.reply.prompt_tokens,
    )


def _counters(deltas: Window, exclusive: bool) -> Counters:
    return Counters(
        load_back_tokens=_whole(deltas.load_back_tokens),
        cached_host_tokens=_whole(deltas.cached_host),
        cached_device_tokens=_whole(deltas.cached_device),
        load_back_bytes=_whole(deltas.load_back_bytes),
        exclusive=exclusive,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _control(asked: Asked, others: Sequence[Asked], kind: ControlKind) -> Control | None:
    if asked.series != "C":
        return None
    other = same(others, "C" if kind == "hicache_off" else "miss", asked.repetition)
    if other is None:
        return None
    return Control(
        kind=kind,
        host_tokens=other.reply.host_tokens,
        load_back_tokens=_whole(other.window.load_back_tokens) if other.exclusive else None,
        cached_tokens=other.reply.cached_tokens,
    )


def _times(asked: Iterable[Asked], series: Series) -> list[float]:
    return [one.reply.ttft_seconds for one in asked if one.series == series]


def _by_series(
    asked: Sequence[Asked], baseline: Sequence[Asked], seconds: Callable[[Reply], float]
) -> dict[str, Summary]:
    times = {
        name: [seconds(one.reply) for one in asked if one.series == name] for name in ("A", "B", "C", "D", "E")
    } | {"control": [seconds(one.reply) for one in baseline]}
    return {name: summary for name, values in times.items() if (summary := stats.summarise(values))}


def _outcome(requests: Sequence[Measured]) -> Outcome:
    reads = [one for one in requests if one.series == "C"]
    weakest = min(
        reads, key=lambda one: (_RANKING.index(one.judgement.verdict), _CONTENTS.index(one.judgement.content))
    )
    content = min((one.judgement.content for one in reads), key=_CONTENTS.index)
    if any(one.judgement.content == "damaged" for one in requests if one.series in ("D", "E", "marker")):
        content = "damaged"
    verdict = weakest.judgement.verdict
    return Outcome(
        verdict=verdict,
        content=content,
        exit_code=0 if verdict in PROVEN and content != "damaged" else 1,
        sentence=sentence(weakest, content, reads),
        deciding=weakest.reply.request_id,
    )
