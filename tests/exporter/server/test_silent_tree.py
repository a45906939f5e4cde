"""An engine whose tree loads back and counts nothing: HiMambaRadixCache of 0.5.10 to 0.5.12, beside its recorder."""

import time

import pytest

from hicache_exporter.core.engine_trees import HIMAMBA
from hicache_exporter.sources.targets import parse_target

from ..engine.faulty import FaultyEngine
from ..engine.test_engine_trees import before_any_hit, silent
from ..scribe import IDENTITY, RingFile
from .exposition import series
from .test_metrics import scrape

COUNTER = "hicache_engine_load_back_tokens_total"


@pytest.mark.parametrize("name", ["0.5.10-cpu", "0.5.12-cpu"])
async def test_the_engines_counters_are_missing_and_the_recorders_count_is_there(sidecar, rings, name):
    engine = FaultyEngine(name=name)
    engine.text = before_any_hit(silent(name, used=0.0))  # nothing in the text gives the tree away
    async with engine.running():
        port = int(engine.address.rpartition(":")[2])
        written = RingFile(rings, identity={**IDENTITY, "tree": HIMAMBA, "port": port})
        async with sidecar(engines=(parse_target(engine.address),)) as client:
            written.now_ns = time.monotonic_ns()
            written.host_request("c")
            text = await scrape(client)
    found = series(text)
    assert COUNTER not in text
    assert "hicache_engine_evicted_tokens_total{" not in text
    for family in ("load_back_tokens_total", "load_back_duration_seconds", "evicted_tokens_total"):
        assert found[f"hicache_engine_family_missing{{family=sglang:{family},flag=sglang>=0.5.13}}"] == 1
    assert found["hicache_load_back_loaded_tokens_total"] == 299
    assert found["hicache_load_backs_total{outcome=loaded}"] == 1
    assert found["hicache_transfer_tokens_total{direction=host_to_device}"] == 299
    assert f'tree="{HIMAMBA}"' in text
