"""The words and rows that all reports share. Pure: a LabRun in, text out. A dash is a number that nobody gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from hicache_proof.evidence import Attribution
from hicache_proof.lab.run import CONTROLS, SERIES, LabRun, Measured
from hicache_proof.units import size

DASH = "\N{EN DASH}"
TIERS = {
    "device": "L1",
    "host": "L2",
    "storage": "L3",
    "mixed": "several tiers",
    "none": "computed",
    "unknown": "unknown",
}
VERDICTS = {
    "corroborated": "corroborated",
    "proven": "proven",
    "consistent": "only consistent",
    "contradicted": "contradicted",
    "not_observed": "not observed",
    "no_read": "no L2 read",
}
CONTENT = {"intact": "content intact", "damaged": "content damaged", "not_checked": "content not checked"}
STANCES = {"supports": "supports", "contradicts": "contradicts", "silent": "can't tell", "absent": "not there"}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One series. Where its requests differ, a cell gives the range."""

    series: str
    meaning: str
    requests: int
    prompt: str
    device: str
    host: str
    storage: str
    computed: str
    ttft: str
    served_by: str
    verdict: str
    shares: tuple[Share, ...]


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a prompt's tokens, over all requests of a series."""

    tier: Literal["l1", "l2", "l3", "computed"]
    percent: float
    title: str


def rows(run: LabRun) -> tuple[Row, ...]:
    """Series in the order in which they were asked; the control last."""
    found = [_row(run, name, SERIES[name], run.of(name)) for name in ("A", "B", "C", "D", "E") if run.of(name)]
    control = control_requests(run)
    if control and run.control is not None:
        found.append(_row(run, "control", CONTROLS[run.control.kind], control))
    return tuple(found)


def control_requests(run: LabRun) -> tuple[Measured, ...]:
    """The control's counterpart of C."""
    if run.control is None:
        return ()
    wanted = "C" if run.control.kind == "hicache_off" else "miss"
    return tuple(request for request in run.control.requests if request.series == wanted)


def account(request: Measured) -> Attribution:
    """Cached tokens by tier: the scheduler's own account where the recorder saw it, else the reply's."""
    return request.evidence.attribution or request.reply.attribution


def computed(request: Measured) -> int | None:
    if request.evidence.computed_tokens is not None:
        return request.evidence.computed_tokens
    prompt, cached = request.reply.prompt_tokens, request.reply.cached_tokens
    return None if prompt is None or cached is None else prompt - cached


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return DASH
    value = seconds * 1e3
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"


def number(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}"


def tokens(count: int) -> str:
    return f"{count:,} token" if count == 1 else f"{count:,} tokens"


def amount(value: float | None, unit: str) -> str:
    """Bytes with a binary prefix, anything else with its unit."""
    if value is None:
        return DASH
    if unit != "bytes":
        return f"{value:,.0f} {unit}"
    return size(value)


def effect(run: LabRun) -> str:
    """What the read is worth, in one sentence, or why no figure is given."""
    found = run.effect
    if run.outcome.verdict == "no_read":
        return "No speed-up figure: series C was not read from L2."
    if found.says == "refused" or found.ratio is None or found.ratio_interval is None:
        return f"No speed-up figure: {found.why}."
    interval = f"{found.ratio_interval.low:.2f} to {found.ratio_interval.high:.2f}"
    baseline = f"{milliseconds(run.ttft['control'].median)} for {found.baseline}"
    what = "the L2 read" if run.outcome.verdict in ("proven", "corroborated") else "series C"
    read = f"{milliseconds(run.ttft['C'].median)} for {what}"
    if found.says == "no_difference":
        ratio = f"ratio {found.ratio:.2f}, 95 % interval {interval}"
        return f"No difference in TTFT was shown: {read}, {baseline} ({ratio}): {found.why}."
    word = "faster" if found.says == "faster" else "slower"
    times = found.ratio if found.says == "faster" else 1 / found.ratio
    return f"{times:.1f} times {word}: {read}, {baseline} (ratio {found.ratio:.2f}, 95 % interval {interval})."


def limits(run: LabRun) -> tuple[str, ...]:
    """What this run does not claim."""
    engine = run.engine
    said = [
        f"It speaks for {len(run.of('C'))} requests of one prompt shape under the write policy "
        f"{engine.write_policy or DASH}, not for the server's traffic.",
        "A lower TTFT or a cached_tokens field alone would only be consistent with reuse; neither decides here.",
        "The greedy answer and its log-probabilities were compared; other tensors that a request can return were not.",
    ]
    if engine.dp_rank is not None:
        said.append(
            f"It speaks for data-parallel rank {engine.dp_rank} alone, of {engine.dp_size} replicas with an L1 and an "
            "L2 each: all requests of the run were sent to it."
        )
    if engine.device == "cpu":
        said.append(
            "The engine computed on the CPU: L1 and L2 are both in this machine's RAM. The read from one to the "
            "other is real; its speed says nothing about a GPU."
        )
    if run.outcome.content != "intact":
        said.append("The content of the rows was not verified, so the answers' agreement is all that speaks for it.")
    if run.control is None or run.control.kind == "forced_miss":
        said.append("The control is a forced miss on the same engine; no engine without HiCache was asked.")
    unseen = sum(not request.events for request in run.requests)
    if run.sidecar_missing and unseen:
        told = f"Of {unseen} of {len(run.requests)} requests the flight recorder tells nothing"
        said.append(f"{told}: {run.sidecar_missing}.")
    if engine.storage_backend:
        said.append(_about_storage(run))
    return tuple(said)


def _about_storage(run: LabRun) -> str:
    backend = run.engine.storage_backend
    if run.storage is None:
        return f"L3 ({backend}) is attached; its reads pass through L2 and were not part of the run (--l3 adds them)."
    return (
        f"Series E speaks for the storage backend {backend} as it is here. Rows from storage carry no signature, so "
        "their content is compared by the answers alone."
    )


def summary(run: LabRun) -> str:
    """One line for a terminal, a chat or a commit message."""
    said = [run.outcome.sentence, f"TTFT {_ttfts(run)}.", effect(run)]
    said += [run.storage.sentence] if run.storage is not None else []
    if run.lengths is not None and run.lengths.break_even is not None:
        said.append(run.lengths.break_even.sentence)
    return " ".join(said)


def _ttfts(run: LabRun) -> str:
    return ", ".join(f"{name} {milliseconds(found.median)}" for name, found in run.ttft.items())


def _row(run: LabRun, name: str, meaning: str, requests: Sequence[Measured]) -> Row:
    return Row(
        series=name,
        meaning=meaning,
        requests=len(requests),
        prompt=_range(request.reply.prompt_tokens for request in requests),
        device=_range(account(request).device_tokens for request in requests),
        host=_range(account(request).host_tokens for request in requests),
        storage=_range(account(request).storage_tokens for request in requests),
        computed=_range(computed(request) for request in requests),
        ttft=milliseconds(run.ttft[name].median) if name in run.ttft else DASH,
        served_by=_each(served_by(request) for request in requests),
        verdict=_each(verdict(request) for request in requests),
        shares=_shares(requests),
    )


def _shares(requests: Sequence[Measured]) -> tuple[Share, ...]:
    """Empty if a number is missing: a bar must not look whole when it is not."""
    prompt = sum(request.reply.prompt_tokens or 0 for request in requests)
    # a reply that says "nothing cached" gives no split, and needs none
    cold = all(request.reply.cached_tokens == 0 for request in requests)
    parts: list[tuple[Literal["l1", "l2", "l3", "computed"], str, list[int | None]]] = [
        ("l1", "L1", [0 if cold else account(request).device_tokens for request in requests]),
        ("l2", "L2", [0 if cold else account(request).host_tokens for request in requests]),
        ("computed", "computed", [computed(request) for request in requests]),
    ]
    if any(account(request).storage_tokens for request in requests):
        parts.insert(2, ("l3", "L3", [account(request).storage_tokens for request in requests]))
    if not prompt or any(None in values for _, _, values in parts):
        return ()
    return tuple(
        Share(
            tier=tier,
            percent=round(100 * (total := sum(v or 0 for v in values)) / prompt, 2),
            title=f"{name} {total:,}",
        )
        for tier, name, values in parts
    )


def served_by(request: Measured) -> str:
    """The tier; a reply that says "nothing cached" needs no split by tier to say that all was computed.

    A page or less of L1 beside a longer rest is the start that two unrelated prompts happen to share.
    """
    shared = _shared_start(request)
    if shared:
        rest = "L2" if account(request).host_tokens else "L3" if account(request).storage_tokens else TIERS["none"]
        return f"{rest} ({tokens(shared)} of another prompt's start from L1)"
    tier = request.judgement.served_by
    return TIERS["none" if tier == "unknown" and request.reply.cached_tokens == 0 else tier]


def _shared_start(request: Measured) -> int:
    """Tokens of L1 that are no more than a page, where more than that came from elsewhere; else 0."""
    found, page = account(request), request.evidence.page_size or 1
    device, prompt = found.device_tokens or 0, request.reply.prompt_tokens or 0
    if request.judgement.served_by not in ("device", "mixed") or not 0 < device <= page < prompt - device:
        return 0
    return 0 if found.host_tokens and found.storage_tokens else device


def verdict(request: Measured) -> str:
    """The verdict in words, with the content where somebody looked at it."""
    if request.judgement.verdict == "not_observed" and request.recorder_says:
        return "not watched"
    if request.judgement.rule == "storage-through-host":
        return f"{VERDICTS[request.judgement.verdict]}: it came from L3"
    said = VERDICTS[request.judgement.verdict]
    return said if request.judgement.content == "not_checked" else f"{said}, {CONTENT[request.judgement.content]}"


def _range(values: Iterable[int | None]) -> str:
    given = list(values)
    if None in given:
        return DASH
    low, high = min(v for v in given if v is not None), max(v for v in given if v is not None)
    return f"{low:,}" if low == high else f"{low:,}{DASH}{high:,}"


def _each(values: Iterable[str]) -> str:
    """One text where all agree, else each with its count."""
    given = list(values)
    distinct = sorted(set(given), key=given.index)
    if len(distinct) == 1:
        return distinct[0]
    return "; ".join(f"{given.count(value)} x {value}" for value in distinct)
