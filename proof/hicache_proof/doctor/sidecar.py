"""From the sidecar's /metrics to what the flight recorders of one engine told. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hicache_exporter import names
from hicache_exporter.core import engine_text
from hicache_exporter.core.engine_text import EngineText, Sample
from hicache_exporter.names import Family
from hicache_proof.chain.facts import Mean, Process, Recorded
from hicache_proof.doctor.addresses import same_engine
from hicache_proof.doctor.processes import process

_COUNTERS = (
    names.ENGINE_RESTARTS,
    names.REQUESTS,
    names.LOAD_BACKS,
    names.LOAD_BACK_PROMISED,
    names.LOAD_BACK_LOADED,
    names.BACKUPS_REFUSED,
    names.EVICTED_TOKENS,
    names.RECORDS_LOST,
    names.RECORDER_UP,
    names.SEAM_STATE,
    names.SEAM_FIRED,
)
_HISTOGRAMS = (names.TTFT, names.TRANSFER_SECONDS)
WANTED = {family.series: family.series for family in _COUNTERS} | {
    name: name for family in _HISTOGRAMS for name in (family.name + "_count", family.name + "_sum")
}


def recorded(metrics: bytes, engine: str, ranks_expected: int | None) -> Recorded | None:
    """``engine``: its URL. None if the sidecar follows no recorder of it. Raises ValueError for a broken text."""
    text = engine_text.read(metrics, WANTED)
    address = _address(text, engine)
    if address is None:
        return None
    of = _Engine(text, address)
    return Recorded(
        since="the sidecar began to follow it",
        processes=tuple(_processes(of)),
        ranks_expected=ranks_expected,
        engine_restarts=of.total(names.ENGINE_RESTARTS) or 0.0,
        requests=of.total(names.REQUESTS),
        promised_tokens=of.total(names.LOAD_BACK_PROMISED),
        loaded_tokens=of.total(names.LOAD_BACK_LOADED),
        load_backs={sample.labels["outcome"]: sample.value for sample in of.samples(names.LOAD_BACKS.series)},
        backups_refused=of.total(names.BACKUPS_REFUSED),
        demoted_tokens=of.total(names.EVICTED_TOKENS, cause="demoted"),
        dropped_tokens=of.total(names.EVICTED_TOKENS, cause="dropped"),
        host_evicted_tokens=of.total(names.EVICTED_TOKENS, cause="host_evicted"),
        ttft={tier: of.mean(names.TTFT, tier=tier) for tier in names.SERVING},
        load=of.mean(names.TRANSFER_SECONDS, direction="host_to_device"),
        lost_records=of.total(names.RECORDS_LOST) or 0.0,
    )


class _Engine:
    """The samples of one engine."""

    def __init__(self, text: EngineText, address: str) -> None:
        self._text = text
        self._address = address

    def samples(self, series: str, **labels: str) -> Iterator[Sample]:
        wanted = {"engine": self._address, **labels}.items()
        return (sample for sample in self._text.of(series) if wanted <= sample.labels.items())

    def total(self, family: Family, **labels: str) -> float | None:
        """None where the sidecar has no such series."""
        values = [sample.value for sample in self.samples(family.series, **labels)]
        return sum(values) if values else None

    def mean(self, family: Family, **labels: str) -> Mean:
        count = sum(sample.value for sample in self.samples(family.name + "_count", **labels))
        return Mean(count=count, total=sum(sample.value for sample in self.samples(family.name + "_sum", **labels)))


def _address(text: EngineText, engine: str) -> str | None:
    """The label under which the sidecar knows the engine."""
    return same_engine(engine, sorted({sample.labels["engine"] for sample in text.of(names.RECORDER_UP.series)}))


def _processes(of: _Engine) -> Iterator[Process]:
    for up in of.samples(names.RECORDER_UP.series):
        rank = up.labels["rank"]
        states = {
            s.labels["seam"]: s.labels["state"] for s in of.samples(names.SEAM_STATE.series, rank=rank) if s.value
        }
        fired = {s.labels["seam"] for s in of.samples(names.SEAM_FIRED.series, rank=rank) if s.value}
        yield process(rank, running=up.value > 0, states=states, fired=fired)
