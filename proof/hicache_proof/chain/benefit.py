"""The last link: is a request that read L2 answered sooner than one that was computed?"""

from __future__ import annotations

from collections.abc import Iterator

from hicache_proof.chain.facts import ChainInput, Mean
from hicache_proof.chain.findings import Finding, found
from hicache_proof.chain.stage import Stage, examined

ENOUGH = 5
"""Requests of each kind below which their mean says nothing."""
NO_GAIN = 0.9
LATE = 0.5
"""Share of the time to the first token that the load itself took."""


def benefit(facts: ChainInput) -> Stage:
    recorded = facts.recorded
    if recorded is None or recorded.no_sidecar is not None:
        return examined("benefit", "unknown", "only a flight recorder, followed by a sidecar, tells TTFT by tier")
    if not recorded.ttft:
        return examined("benefit", "unknown", "TTFT by tier is not known of this run of the engine alone")
    read = recorded.ttft.get("host")
    computed = recorded.ttft.get("none")
    if read is None or computed is None or min(read.count, computed.count) < ENOUGH:
        return examined("benefit", "unknown", f"fewer than {ENOUGH} requests of each kind to compare")
    says = f"mean TTFT {_ms(read)} from L2, {_ms(computed)} computed"
    return examined("benefit", "ok", says, _of_times(read, computed, recorded.load))


def _of_times(read: Mean, computed: Mean, load: Mean | None) -> Iterator[Finding]:
    if load is not None and load.count and load.seconds >= LATE * read.seconds and _slow(read, computed):
        yield found(
            "hit-but-late",
            f"TTFT {_ms(read)} from L2 against {_ms(computed)} computed; {_ms(load)} of it for the load",
        )
    elif _slow(read, computed):
        yield found("hit-no-gain", f"TTFT {_ms(read)} from L2 against {_ms(computed)} computed")


def _slow(read: Mean, computed: Mean) -> bool:
    return read.seconds >= NO_GAIN * computed.seconds


def _ms(mean: Mean) -> str:
    return f"{1000 * mean.seconds:.0f} ms"
