"""The sidecar beside a real engine: its end is seen within one scrape, and a seam that is off is told."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hicache_exporter import names
from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.sidecar import Sidecar
from hicache_tracing.records import Kind

from ..tracing.ring import read
from .driver import ask, evict, flush, prompt

pytestmark = pytest.mark.engine

Series = dict[str, list[tuple[dict[str, str], float]]]


def scrape(sidecar: Sidecar) -> Series:
    answer = httpx.get(f"{sidecar.url}/metrics", timeout=20, trust_env=False)
    answer.raise_for_status()
    found: Series = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def total(series: Series, family: names.Family, **labels: str) -> float | None:
    values = [value for found, value in series.get(family.series, []) if labels.items() <= found.items()]
    return sum(values) if values else None


def eventually(sidecar: Sidecar, family: names.Family, wanted: float, **labels: str) -> Series:
    deadline = time.monotonic() + 10
    while total(series := scrape(sidecar), family, **labels) != wanted:
        assert time.monotonic() < deadline, (family.series, labels, total(series, family, **labels), wanted)
        time.sleep(0.1)
    return series


def test_the_end_of_an_engine_is_told_by_the_next_scrape_and_no_complete_record_is_lost(tmp_path: Path) -> None:
    with Engine(EngineSpec(), tmp_path / "engine") as engine, Sidecar(engine.url, engine.rings, tmp_path) as sidecar:
        ids = prompt("kill")
        ask(engine, ids)
        evict(engine, "kill")
        answer = ask(engine, ids, tokens=2)
        host = answer.by_tier["host"]
        before = eventually(sidecar, names.HIT_TOKENS, host, tier="host")
        assert total(before, names.ENGINE_UP) == 1
        assert total(before, names.RECORDER_UP) == 1
        assert total(before, names.ENGINE_CAPACITY, tier="device") == engine.spec.max_total_tokens

        engine.kill()
        after = scrape(sidecar)
        assert total(after, names.ENGINE_UP) == 0
        assert total(after, names.ENGINE_CAPACITY) is None, "what the engine said is gone with it"
        gone = eventually(sidecar, names.RECORDER_UP, 0)
        assert total(gone, names.HIT_TOKENS) is None, "and so is what its recorder counted"
        assert total(gone, names.RECORDS_LOST) == 0
        proofs = httpx.get(f"{sidecar.url}/proofs/{answer.request_id}", timeout=20, trust_env=False)
        assert proofs.json()["judgement"]["served_by"] == "host", "what it did can still be proven"
        (path,) = engine.rings.glob("*.ring")
        ring = read(path)
        assert ring.torn == []
        assert ring.of(Kind.ADMIT)


def test_a_seam_that_switched_itself_off_is_on_the_metrics_page(engines, faulty, tmp_path: Path) -> None:
    engine = engines(faulty(seam="PrefillAdder.add_one_req"))
    for number in range(4):
        ask(engine, prompt(f"tripped {number}"), tokens=2)
    with Sidecar(engine.url, engine.rings, tmp_path) as sidecar:
        series = eventually(sidecar, names.SEAM_STATE, 1, seam="PrefillAdder.add_one_req", state="tripped")
        faults = total(series, names.SEAM_FAULTS, seam="PrefillAdder.add_one_req")
        assert faults is not None
        assert faults >= 5


def test_two_data_parallel_replicas_add_up(engines, tmp_path: Path) -> None:
    engine = engines(EngineSpec(arguments=("--dp-size", "2"), variables={"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}))
    flush(engine)
    with Sidecar(engine.url, engine.rings, tmp_path) as sidecar:
        prompts = [prompt(f"replica {number}", 100) for number in range(6)]
        base = total(eventually(sidecar, names.RECORDER_UP, 2), names.PROMPT_TOKENS) or 0.0
        for ids in prompts:
            ask(engine, ids, tokens=2)
        series = eventually(sidecar, names.PROMPT_TOKENS, base + sum(map(len, prompts)))
        ranks = {labels["rank"] for labels, _ in series[names.RECORDER_UP.series]}
        assert len(ranks) == 2
    rings = [read(path) for path in engine.rings.glob("*.ring")]
    assert sorted(ring.identity["dp_rank"] for ring in rings) == [0, 1]
    assert all(ring.of(Kind.ADMIT) for ring in rings), "the load is spread over both"
