"""Does a certificate hold? The digest and the verdict are worked out again from what stands in the file."""

from __future__ import annotations

from typing import Any

import msgspec

from hicache_proof.certificate import Certificate, digest
from hicache_proof.rules import RULES
from hicache_proof.verdict import judge


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
        f"{name}: the file states {getattr(stated, name)}, the evidence gives {getattr(judged, name)}"
        for name in ("verdict", "served_by", "content", "rule", "reasons")
        if getattr(stated, name) != getattr(judged, name)
    ]
    for here, there in zip(stated.witnesses, judged.witnesses, strict=False):
        if here != there:
            found.append(f"witness {there.name}: the file states {here.stance}, the evidence gives {there.stance}")
    if len(stated.witnesses) != len(judged.witnesses):
        found.append(f"witnesses: the file states {len(stated.witnesses)}, the evidence gives {len(judged.witnesses)}")
    if (certificate.rule.id, certificate.rule.sentence) != (judged.rule, RULES[judged.rule]):
        found.append(f"rule: the file states {certificate.rule.id}, the evidence gives {judged.rule}")
    return found
