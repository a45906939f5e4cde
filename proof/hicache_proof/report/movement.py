"""What each series reused and what had to move for it. Pure. A dash is a number that nobody gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hicache_proof.evidence import Transfer
from hicache_proof.lab.run import LabRun, Measured, Series
from hicache_proof.report import view
from hicache_proof.units import size


class Movement(NamedTuple):
    series: str
    reused: str
    """Tokens by tier, over all requests of the series."""
    moved: str
    time: str
    speed: str


def rows(run: LabRun) -> tuple[Movement, ...]:
    named: tuple[Series, ...] = ("A", "B", "C", "D", "E")
    return tuple(_row(name, run.of(name)) for name in named if run.of(name))


def energy(run: LabRun) -> str:
    if not run.energy:
        return "Energy: nobody measured it (NVML's counter, where there is a GPU and a sidecar beside it)."
    gpus = ", ".join(f"GPU {found.gpu}: {found.joules:,.0f} J" for found in run.energy)
    return (
        f"Energy over the whole run of {run.seconds:.0f} s, all series, loads and pauses together: {gpus} "
        "(NVML's counter, which the sidecar reads every 15 to 20 s: either end may be of that much earlier)."
    )


def speed(transfers: Sequence[Transfer]) -> float | None:
    """Bytes a second, both of the transfers themselves; None if one of them was not timed."""
    seconds = sum(transfer.device_seconds or 0.0 for transfer in transfers)
    if any(transfer.bytes is None or transfer.device_seconds is None for transfer in transfers) or not seconds:
        return None
    return sum(transfer.bytes or 0 for transfer in transfers) / seconds


def _row(name: str, requests: Sequence[Measured]) -> Movement:
    known = [request.evidence.transfers for request in requests]
    transfers = [transfer for of_one in known for transfer in of_one or ()]
    amounts = [transfer.bytes for transfer in transfers]
    timed = [transfer.device_seconds for transfer in transfers]
    rate = speed(transfers)
    nothing = "nothing" if None not in known else view.DASH
    return Movement(
        series=name,
        reused=_reused(requests),
        moved=size(sum(amount or 0 for amount in amounts)) if amounts and None not in amounts else nothing,
        time=view.milliseconds(sum(t or 0 for t in timed)) if timed and None not in timed else view.DASH,
        speed=f"{rate / 1e9:.2f} GB/s" if rate is not None else view.DASH,
    )


def _reused(requests: Sequence[Measured]) -> str:
    tiers = []
    for tier, field in (("L1", "device_tokens"), ("L2", "host_tokens"), ("L3", "storage_tokens")):
        given = [getattr(view.account(request), field) for request in requests]
        if any(given):
            tiers.append(f"{tier} {view.DASH}" if None in given else f"{tier} {sum(given):,}")
    cold = all(request.reply.cached_tokens == 0 for request in requests)
    return ", ".join(tiers) or ("none" if cold else view.DASH)
