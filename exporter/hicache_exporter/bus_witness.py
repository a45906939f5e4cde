"""The physical witness: adds to a request's evidence what the GPU's PCIe link carried during its load-back."""

from __future__ import annotations

import msgspec

from hicache_exporter.core.bus_evidence import claim_of, physical
from hicache_exporter.core.identity import Identity
from hicache_exporter.core.pcie_window import TOO_EARLY, BusWindow
from hicache_exporter.core.rank_ledger import RankLedger
from hicache_exporter.rank_processes import gpu_of
from hicache_exporter.sources.gpu_probe import GpuProbe
from hicache_proof.evidence import Evidence


class BusWitness:
    """One of the ``enrich`` functions of Judging. Without a GPU to look at, the evidence stays as it is: absent."""

    def __init__(self, probe: GpuProbe) -> None:
        self._probe = probe

    def __call__(self, ledger: RankLedger, evidence: Evidence) -> Evidence:
        claim = claim_of(evidence.transfers)
        expected = self._probe.expected()
        if claim is None or not expected:
            return evidence
        seen = self._window(ledger.identity, expected, claim.t0_ns, claim.t1_ns)
        return msgspec.structs.replace(evidence, physical=physical(claim, seen))

    def is_early(self, ledger: RankLedger, evidence: Evidence) -> bool:
        """True if the sample that closes the window is still to come (20 ms): worth judging a moment later."""
        claim = claim_of(evidence.transfers)
        expected = self._probe.expected()
        if claim is None or not expected:
            return False
        return self._window(ledger.identity, expected, claim.t0_ns, claim.t1_ns).why_not == TOO_EARLY

    def _window(self, identity: Identity, expected: list[str], t0_ns: int, t1_ns: int) -> BusWindow:
        uuid = gpu_of(identity) or (expected[0] if len(expected) == 1 else None)
        if uuid is None:
            return BusWindow(False, "the engine does not tell which of the GPUs it uses")
        return self._probe.bytes_between(uuid, t0_ns, t1_ns)
