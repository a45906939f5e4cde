"""Lab only: the same load where no L2 read can happen. If it shows one all the same, the run proves nothing."""

from __future__ import annotations

from hicache_proof.evidence import Evidence
from hicache_proof.witnesses.state import WitnessState, absent, contradicts, silent, supports

NAME = "control"


def testify(evidence: Evidence) -> WitnessState:
    control = evidence.control
    if control is None:
        return absent(NAME, "no control run (lab only)")
    kind = "HiCache off" if control.kind == "hicache_off" else "forced miss"
    if (control.host_tokens or 0) > 0 or (control.load_back_tokens or 0) > 0:
        shown = f"host {control.host_tokens or 0}, load-back {control.load_back_tokens or 0} tokens"
        return contradicts(NAME, f"control ({kind}) shows an L2 read as well: {shown}")
    if control.host_tokens is None and control.load_back_tokens is None and control.cached_tokens != 0:
        return silent(NAME, f"control ({kind}) gives no figure to compare")
    return supports(NAME, f"control ({kind}) shows no L2 read")
