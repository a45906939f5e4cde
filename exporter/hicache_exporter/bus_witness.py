"""The physical witness: adds to a request's evidence what each rank's PCIe link carried during its load-back."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hicache_exporter.core.bus_evidence import Claim, physical
from hicache_exporter.core.engine_ledger import Case
from hicache_exporter.core.pcie_window import TOO_EARLY, BusWindow
from hicache_exporter.rank_processes import gpu_of
from hicache_exporter.sources.gpu_probe import GpuProbe
from hicache_proof.evidence import Evidence


class BusWitness:
    """One of the ``enrich`` functions of Judging. Without a GPU to look at, the evidence stays as it is: absent."""

    def __init__(self, probe: GpuProbe) -> None:
        self._probe = probe

    def __call__(self, case: Case, evidence: Evidence) -> Evidence:
        seen = {rank: physical(claim, window) for rank, claim, window in self._windows(case)}
        siblings = (msgspec.structs.replace(view, physical=seen.get(view.rank)) for view in evidence.ranks)
        return msgspec.structs.replace(evidence, physical=seen.get(evidence.rank), ranks=tuple(siblings))

    def is_early(self, case: Case) -> bool:
        """True if a sample that closes a window is still to come (50 ms under load): worth judging a moment later."""
        return any(window.why_not == TOO_EARLY for _, _, window in self._windows(case))

    def _windows(self, case: Case) -> Iterator[tuple[str, Claim, BusWindow]]:
        """Each rank that claims to have moved bytes, its claim, and what its GPU saw meanwhile."""
        expected = self._probe.expected()
        if not expected:
            return
        only = expected[0] if len(expected) == 1 else None
        gpus = {rank: gpu_of(found.identity) or only for rank, found in case.claims.items()}
        for rank, (_, claim) in case.claims.items():
            if claim is not None:
                beside = [other for other, uuid in gpus.items() if uuid == gpus[rank] and other != rank]
                yield rank, claim, self._window(gpus[rank], beside, claim)

    def _window(self, uuid: str | None, beside: list[str], claim: Claim) -> BusWindow:
        if uuid is None:
            return BusWindow(False, "the engine does not tell which of the GPUs it uses")
        if beside:  # the bytes of one rank could stand in for missing ones of another
            return BusWindow(False, f"its GPU serves {', '.join(beside)} too, and the bytes can't be told apart")
        return self._probe.bytes_between(uuid, claim.t0_ns, claim.t1_ns)
