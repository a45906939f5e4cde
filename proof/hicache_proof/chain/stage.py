"""One link of the chain, examined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from hicache_proof.chain.findings import Finding, StageName

State = Literal["ok", "broken", "idle", "unknown"]
"""``idle``: in order, and nothing has come by yet. ``unknown``: nobody gave the numbers."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    name: StageName
    state: State
    says: str
    findings: tuple[Finding, ...] = ()


def examined(name: StageName, state: State, says: str, findings: Iterable[Finding] = ()) -> Stage:
    """``state`` holds unless a finding breaks the chain here."""
    findings = tuple(findings)
    broken = any(finding.severity == "error" for finding in findings)
    return Stage(name=name, state="broken" if broken else state, says=says, findings=findings)


def tokens(amount: float | None) -> str:
    return "an unknown number of" if amount is None else f"{amount:,.0f}"
