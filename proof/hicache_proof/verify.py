"""Does a certificate hold? The digest and the verdict are worked out again from what stands in the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hicache_proof.certificate import Certificate, digest
from hicache_proof.rules import RULES
from hicache_proof.verdict import judge
from hicache_proof.witnesses.state import WitnessState


class UnreadableError(ValueError):
    """Not a certificate of this format; says why."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """``differences`` is empty if the certificate holds."""

    request_id: str
    verdict: str
    """As worked out again from the evidence."""
    content: str
    issued_by: str
    """Version of hicache-witness that issued it: other rules may have judged."""
    differences: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.differences


def verify(document: bytes) -> Verification:
    """Raises UnreadableError."""
    try:
        raw: Any = msgspec.json.decode(document)
        if isinstance(raw, dict) and "format" not in raw and "outcome" in raw:
            raise UnreadableError("it is the report of a lab run, whose certificate.json lies beside it")
        certificate = msgspec.convert(raw, Certificate)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise UnreadableError(str(error)) from None
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None
    judged = judge(certificate.evidence)
    return Verification(
        request_id=certificate.subject.request_id,
        verdict=judged.verdict,
        content=judged.content,
        issued_by=certificate.versions.tool,
        differences=(*_of_the_digest(raw), *_of_the_subject(certificate), *_of_the_judgement(certificate)),
    )


def _of_the_digest(raw: dict[str, Any]) -> list[str]:
    stated, worked_out = raw.get("digest"), digest(raw)
    return [] if stated == worked_out else [f"digest: the file states {stated}, its content gives {worked_out}"]


def _of_the_subject(certificate: Certificate) -> list[str]:
    return [
        f"{name}: the subject states {stated}, the evidence is on {seen}"
        for name, stated, seen in (
            ("request_id", certificate.subject.request_id, certificate.evidence.request_id),
            ("engine", certificate.subject.engine, certificate.evidence.engine),
            ("rank", certificate.subject.rank, certificate.evidence.rank),
        )
        if stated != seen
    ]


def _of_the_judgement(certificate: Certificate) -> list[str]:
    judged, stated = judge(certificate.evidence), certificate.judgement
    found = [
        _differs(name, getattr(stated, name), getattr(judged, name))
        for name in ("verdict", "served_by", "content", "rule")
        if getattr(stated, name) != getattr(judged, name)
    ]
    if stated.reasons != judged.reasons:
        found.append(_differs("reasons", _quoted(*stated.reasons), _quoted(*judged.reasons)))
    for here, there in zip(stated.witnesses, judged.witnesses, strict=False):
        found.extend(_of_the_witness(here, there))
    if len(stated.witnesses) != len(judged.witnesses):
        found.append(_differs("witnesses", len(stated.witnesses), len(judged.witnesses)))
    found.extend(_of_the_rule(certificate, judged.rule))
    return list(dict.fromkeys(found))


def _of_the_witness(stated: WitnessState, judged: WitnessState) -> Iterator[str]:
    if stated.name != judged.name:
        yield _differs(f"witness {judged.name}", f"one named {_quoted(stated.name)}", "this one")
    if stated.stance != judged.stance:
        yield _differs(f"witness {judged.name}", stated.stance, judged.stance)
    if stated.says != judged.says:
        said = f"the file has it say {_quoted(stated.says)}, the evidence gives {_quoted(judged.says)}"
        yield f"witness {judged.name}: {said}"


def _of_the_rule(certificate: Certificate, judged: str) -> Iterator[str]:
    """The id stands in the judgement as well, which tells the same once; another rule has another sentence."""
    if certificate.rule.id != judged:
        yield _differs("rule", certificate.rule.id, judged)
    elif certificate.rule.sentence != RULES[judged]:
        yield _differs("sentence of the rule", _quoted(certificate.rule.sentence), _quoted(RULES[judged]))


def _differs(name: str, stated: object, judged: object) -> str:
    return f"{name}: the file states {stated}, the evidence gives {judged}"


def _quoted(*texts: str) -> str:
    return " ".join(msgspec.json.encode(text).decode() for text in texts) or "none"
