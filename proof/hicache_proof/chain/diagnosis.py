"""Examines the chain link by link and names the first one that is broken."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hicache_proof.chain.benefit import benefit
from hicache_proof.chain.facts import ChainInput
from hicache_proof.chain.findings import Finding, Severity, StageName
from hicache_proof.chain.known_issues import KnownIssue, issues_of
from hicache_proof.chain.reading import attribution, load_back, match
from hicache_proof.chain.setup import flags, metrics, plugin
from hicache_proof.chain.stage import Stage, examined
from hicache_proof.chain.storing import backup, eviction, occupancy

CHAIN: tuple[tuple[StageName, Callable[[ChainInput], Stage]], ...] = (
    ("flags", flags),
    ("plugin", plugin),
    ("metrics", metrics),
    ("backup", backup),
    ("eviction", eviction),
    ("occupancy", occupancy),
    ("match", match),
    ("load_back", load_back),
    ("attribution", attribution),
    ("benefit", benefit),
)
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    stages: tuple[Stage, ...]
    first_broken: StageName | None
    known_issues: tuple[KnownIssue, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The worst first; those of equal severity in the order of the chain."""
        every = [finding for stage in self.stages for finding in stage.findings]
        return tuple(sorted(every, key=lambda finding: SEVERITIES.index(finding.severity)))


def diagnose(facts: ChainInput) -> Diagnosis:
    """Without a HiCache there is nothing behind the flags to examine."""
    first = flags(facts)
    stages = [first]
    for name, examine in CHAIN[1:]:
        stages.append(examined(name, "unknown", "not examined") if _no_l2(facts) else examine(facts))
    return Diagnosis(
        stages=tuple(stages),
        first_broken=next((stage.name for stage in stages if stage.state == "broken"), None),
        known_issues=issues_of(facts),
    )


def _no_l2(facts: ChainInput) -> bool:
    return facts.configuration is not None and facts.configuration.hicache is False
