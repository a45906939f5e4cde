"""One request's proof as a document: the evidence, the judgement on it, and a digest over both.

The digest is the SHA-256 of the document without its ``digest``, as JSON with sorted keys and no blanks (UTF-8). It
tells that a file is the one that was issued; it is no signature and does not tell by whom.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal

import msgspec

from hicache_proof.evidence import Evidence
from hicache_proof.rules import RULES
from hicache_proof.verdict import Judgement, judge
from hicache_proof.witnesses.sources import SOURCES

FORMAT = "hicache-witness/certificate/1"


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parts: immutable, strict when read from JSON."""


class Subject(_Part, frozen=True, kw_only=True):
    """The request that the certificate is about."""

    request_id: str
    engine: str
    """host:port of the server."""
    rank: str
    at: str | None
    """When it was admitted, RFC 3339; None: not known."""


class Versions(_Part, frozen=True, kw_only=True):
    """What was running. None: nobody told."""

    tool: str
    python: str
    platform: str
    engine: str | None = None
    plugin: str | None = None
    driver: str | None = None
    model: str | None = None


class Rule(_Part, frozen=True, kw_only=True):
    """The rule that decided, with its sentence."""

    id: str
    sentence: str


class Certificate(_Part, frozen=True, kw_only=True):
    """``sources`` tells where the numbers of each witness that was there came from."""

    format: Literal["hicache-witness/certificate/1"] = "hicache-witness/certificate/1"
    created_at: str
    """RFC 3339."""
    subject: Subject
    versions: Versions
    evidence: Evidence
    judgement: Judgement
    rule: Rule
    sources: dict[str, str]
    digest: str
    """``sha256:`` and 64 hex digits."""


def issue(evidence: Evidence, versions: Versions, created_at: str, at: str | None = None) -> Certificate:
    """Judge the evidence and put it into a certificate. Times are RFC 3339.

    Raises ValueError if the evidence holds a number that JSON has no word for (NaN, infinity).
    """
    _refuse_what_json_can_not_say(evidence)
    judgement = judge(evidence)
    draft = Certificate(
        created_at=created_at,
        subject=Subject(request_id=evidence.request_id, engine=evidence.engine, rank=evidence.rank, at=at),
        versions=versions,
        evidence=evidence,
        judgement=judgement,
        rule=Rule(id=judgement.rule, sentence=RULES[judgement.rule]),
        sources={state.name: SOURCES[state.name] for state in judgement.witnesses if state.stance != "absent"},
        digest="",
    )
    return msgspec.structs.replace(draft, digest=digest(msgspec.to_builtins(draft)))


def encode(certificate: Certificate) -> bytes:
    """The document as people and programs read it."""
    return msgspec.json.format(msgspec.json.encode(certificate), indent=2) + b"\n"


def digest(document: dict[str, Any]) -> str:
    """Over the parsed JSON document, whatever else it holds; an existing ``digest`` is left out."""
    content = {name: value for name, value in document.items() if name != "digest"}
    return "sha256:" + sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def _refuse_what_json_can_not_say(evidence: Evidence) -> None:
    try:
        same = msgspec.json.decode(msgspec.json.encode(evidence), type=Evidence)
    except msgspec.ValidationError as error:
        raise ValueError(f"this evidence can't be written as JSON: {error}") from None
    if same != evidence:
        raise ValueError("this evidence can't be written as JSON without loss")
