"""One of the two: what stands in a report of the lab or in a certificate, as far as two of them can be compared.

Read leniently: what an older report does not have is None, and what a newer one has besides is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from hicache_proof.certificate import FORMAT, Certificate
from hicache_proof.evidence import Evidence
from hicache_proof.stats import Effect
from hicache_proof.verify import UnreadableError, verify

LAB_RUN = "hicache-witness/lab-run/"
OTHER_ENGINE = "hicache_off"
"""A control of the lab, and what its requests are called here."""
Value = str | int | float | bool | None
ELSEWHERE = ("url", "launch_command", "version", "model")
"""Of what the lab says of an engine: its address is no configuration, version and model stand with the versions."""


def told(value: Value) -> str:
    if value is None:
        return "not told"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """Of the request that decided. None: nobody measured it."""

    loaded_tokens: int | None
    loaded_bytes: int | None
    bus_bytes: int | None
    """That crossed the bus meanwhile, less what it carries anyway."""
    transfer_seconds: float | None
    """On the device's clock."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["lab run", "certificate"]
    at: str
    verdict: str
    content: str
    sentence: str
    versions: dict[str, str | None]
    machine: dict[str, Value]
    """What times depend on, beside what was configured."""
    load: dict[str, Value]
    """What was asked of the engine."""
    configuration: dict[str, Value]
    times: dict[str, tuple[float, ...]]
    """Seconds to the first token by series."""
    effect: Effect | None
    amounts: Amounts
    doubt: str | None
    """Why this file itself should not be believed."""


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    request_id: str
    sent_ns: int
    first_token_ns: int


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    series: str
    reply: _Reply
    evidence: Evidence


class _Control(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    requests: tuple[_Judged, ...]


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    prefix_tokens: int
    question_tokens: int
    output_tokens: int
    repetitions: int


class _Outcome(msgspec.Struct, frozen=True, kw_only=True):
    verdict: str
    content: str
    sentence: str
    deciding: str


class _Run(msgspec.Struct, frozen=True, kw_only=True):
    started_at: str
    versions: dict[str, str]
    engine: dict[str, Any]
    plan: _Plan
    requests: tuple[_Judged, ...]
    outcome: _Outcome
    effect: Effect
    control: _Control | None = None
    sidecar_missing: str | None = None


def read(document: bytes) -> Side:
    """Raises UnreadableError."""
    try:
        raw = msgspec.json.decode(document)
        if not isinstance(raw, dict):
            raise UnreadableError("it is no JSON object")
        if str(raw.get("schema", "")).startswith(LAB_RUN):
            return _of_run(msgspec.convert(raw, _Run))
        if raw.get("format") == FORMAT:
            return _of_certificate(msgspec.convert(raw, Certificate), document)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UnreadableError(str(error)) from None
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None
    raise UnreadableError("it is neither the report.json nor the certificate.json of a lab run")


def _of_run(run: _Run) -> Side:
    deciding = next((one for one in run.requests if one.reply.request_id == run.outcome.deciding), None)
    if deciding is None:
        raise UnreadableError("the request that decided is not in it")
    engine = {name: value for name, value in run.engine.items() if name not in ELSEWHERE}
    plan = run.plan
    return Side(
        kind="lab run",
        at=run.started_at,
        verdict=run.outcome.verdict,
        content=run.outcome.content,
        sentence=run.outcome.sentence,
        versions={**run.versions, "SGLang": run.engine.get("version")},
        machine={"platform": run.versions.get("platform"), "device": engine.pop("device", None)},
        load={
            "model": run.engine.get("model"),
            "prompt tokens": plan.prefix_tokens + plan.question_tokens,
            "output tokens": plan.output_tokens,
        },
        configuration={**engine, "repetitions": plan.repetitions, "flight recorder": run.sidecar_missing is None},
        times=_times([*run.requests, *_as_control(run.control)]),
        effect=run.effect,
        amounts=amounts(deciding.evidence),
        doubt=None,
    )


def _as_control(control: _Control | None) -> list[_Judged]:
    """What another engine answered in place of series C. A forced miss is a series of the engine under test."""
    if control is None or control.kind != OTHER_ENGINE:
        return []
    return [msgspec.structs.replace(one, series=OTHER_ENGINE) for one in control.requests if one.series == "C"]


def _times(requests: Iterable[_Judged]) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    for one in requests:
        seconds = (one.reply.first_token_ns - one.reply.sent_ns) / 1e9
        found[one.series] = (*found.get(one.series, ()), seconds)
    return found


def _of_certificate(certificate: Certificate, document: bytes) -> Side:
    versions, judgement, verification = certificate.versions, certificate.judgement, verify(document)
    return Side(
        kind="certificate",
        at=certificate.created_at,
        verdict=judgement.verdict,
        content=judgement.content,
        sentence=judgement.reasons[0] if judgement.reasons else judgement.rule,
        versions={
            "hicache-witness": versions.tool,
            "SGLang": versions.engine,
            "Python": versions.python,
            "GPU driver": versions.driver,
        },
        machine={"platform": versions.platform},
        load={"model": versions.model, "prompt tokens": certificate.evidence.prompt_tokens},
        configuration={},
        times={},
        effect=None,
        amounts=amounts(certificate.evidence),
        doubt=None if verification.holds else "it does not hold: see `hicache-witness verify`",
    )


def amounts(evidence: Evidence) -> Amounts:
    transfers = evidence.transfers or ()
    sizes = [transfer.bytes for transfer in transfers]
    seconds = [transfer.device_seconds for transfer in transfers]
    seen = evidence.physical
    measured = seen is not None and seen.usable and seen.bus_bytes is not None and seen.baseline_bytes is not None
    return Amounts(
        loaded_tokens=sum(transfer.request_tokens for transfer in transfers) if transfers else None,
        loaded_bytes=_sum(sizes),
        bus_bytes=(seen.bus_bytes or 0) - (seen.baseline_bytes or 0) if seen is not None and measured else None,
        transfer_seconds=_sum(seconds),
    )


def _sum(values: list[Any]) -> Any:
    """None where there is nothing, or a part of it is not known."""
    return sum(values) if values and None not in values else None
