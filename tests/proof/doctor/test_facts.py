"""From real answers to the facts of the chain: of the engine, of the sidecar, of the ring folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hicache_exporter.core.engine_info import read_server_info
from hicache_proof.chain.facts import Mean
from hicache_proof.doctor.engine import configuration, counted
from hicache_proof.doctor.rings import NoRecorderError, recorders
from hicache_proof.doctor.sidecar import recorded
from hicache_tracing.recorder import Recorder
from hicache_tracing.records import SeamState

from .web import ENGINE, SIDECAR

INFO = ENGINE["/server_info"]
METRICS = ENGINE["/metrics"]
TP4 = {"tp_size": 4}


def info_with(**changes: Any) -> bytes:
    return json.dumps({**json.loads(INFO), **changes}).encode()


def test_the_configuration_is_the_engines_own_word() -> None:
    told = configuration(INFO, read_server_info(INFO))
    assert (told.version, told.hicache, told.metrics, told.write_policy) == ("0.5.23", True, True, "write_through")
    assert (told.chunked_prefill_tokens, told.tokenizer_workers, told.speculative) == (512, 1, False)
    assert told.host_memory_mode == "cache"


def test_chunked_prefill_switched_off_is_no_length() -> None:
    body = info_with(chunked_prefill_size=-1)
    assert configuration(body, read_server_info(body)).chunked_prefill_tokens is None


def test_no_secret_of_the_engine_comes_out() -> None:
    assert b"secret" in INFO
    assert "secret" not in repr((configuration(INFO, read_server_info(INFO)), counted(METRICS, read_server_info(INFO))))


def test_the_counters_are_read_in_logical_tokens() -> None:
    seen = counted(METRICS, read_server_info(INFO))
    assert (seen.requests, seen.prompt_tokens) == (31, 8277)
    assert (seen.load_back_tokens, seen.cached_host, seen.cached_device) == (873, 873, 3396)
    assert (seen.device_capacity, seen.host_capacity, seen.host_used) == (1024, 4097, 4089)
    assert (seen.ranks_added_up, seen.hybrid, seen.cached_unattributed) == (1, False, None)


def test_counters_that_add_ranks_up_are_divided_and_it_is_told() -> None:
    """Up to 0.5.20 the cache's counters carry no rank label."""
    old = METRICS.replace(b',dp_rank="0",pp_rank="0",tp_rank="0"', b"").replace(b',dp_rank="0"', b"")
    old = old.replace(b',pool="kv",pp_rank="0",tp_rank="0"', b',pool="kv"')
    seen = counted(old, read_server_info(info_with(tp_size=3, version="0.5.20")))
    assert (seen.ranks_added_up, seen.load_back_tokens) == (3, 291)


def test_state_of_another_kind_than_kv_makes_a_hybrid_model() -> None:
    mamba = METRICS.replace(b"sglang:mamba_used_tokens{", b'sglang:mamba_used_tokens{x="y",')
    lines = [line[:-3] + b"9.0" if line.startswith(b"sglang:mamba_used") else line for line in mamba.split(b"\n")]
    assert counted(b"\n".join(lines), read_server_info(INFO)).hybrid


def test_a_pool_in_host_memory_is_shown() -> None:
    state = b"sglang:hicache_host_mamba_total_states 64\nsglang:hicache_host_mamba_used_states 3\n"
    (pool,) = counted(METRICS + state, read_server_info(INFO)).pools
    assert (pool.name, pool.capacity, pool.used) == ("mamba", 64, 3)


def test_what_an_older_engine_lacks_is_named_with_what_would_bring_it() -> None:
    lines = [line for line in METRICS.split(b"\n") if b"backup" not in line]
    seen = counted(b"\n".join(lines), read_server_info(info_with(version="0.5.16")))
    assert ("hicache_backup_tokens_total", "sglang>=0.5.18") in seen.missing
    assert seen.backup_tokens is None


@pytest.mark.parametrize("body", [METRICS[:-5], b"some_metric 1\n", b"", b"\xff\n"])
def test_a_text_that_is_not_an_engines_or_was_cut_off_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        counted(body, None)


@pytest.mark.parametrize("engine", ["http://127.0.0.1:30149", "127.0.0.1:30149", "http://localhost:30149"])
def test_the_recorders_counts_come_from_the_sidecar(engine: str) -> None:
    told = recorded(SIDECAR["/metrics"], engine, ranks_expected=1)
    assert told is not None
    assert (told.requests, told.promised_tokens, told.loaded_tokens) == (30, 873, 873)
    assert told.load_backs["loaded"] == 3
    assert (told.demoted_tokens, told.dropped_tokens, told.host_evicted_tokens) == (4132, 0, 0)
    assert told.ttft["host"].count == 3
    assert told.load == Mean(count=3, total=0.000970675)


def test_the_seams_of_each_process_are_told() -> None:
    told = recorded(SIDECAR["/metrics"], "127.0.0.1:30149", None)
    assert told is not None
    (process,) = told.processes
    assert (process.rank, process.running, process.not_recorded) == ("tp0", True, ())
    fired = {seam.name for seam in process.seams if seam.fired}
    assert {"PrefillAdder.add_one_req", "UnifiedRadixCache.init_load_back"} <= fired


def test_a_function_that_no_class_records_is_named() -> None:
    text = SIDECAR["/metrics"].replace(
        b'seam="UnifiedRadixCache.init_load_back",state="attached"',
        b'seam="UnifiedRadixCache.init_load_back",state="x"',
    )
    told = recorded(text, "127.0.0.1:30149", None)
    assert told is not None
    assert told.processes[0].not_recorded == ("init_load_back",)


def test_a_sidecar_that_does_not_follow_the_engine_has_nothing_to_tell() -> None:
    assert recorded(SIDECAR["/metrics"], "127.0.0.1:30150", None) is None


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "rings")


def recorder(folder: str, port: int = 30000) -> Recorder:
    ring = Recorder(folder, 256)
    names = ["PrefillAdder.add_one_req", "UnifiedRadixCache.init_load_back"]
    ring.identify({"host": "127.0.0.1", "port": port, "tp_rank": 0, "seams": names})
    ring.seam(0, SeamState.ATTACHED, fired=True, faults=0)
    ring.seam(1, SeamState.TRIPPED, fired=True, faults=9)
    return ring


def test_without_a_sidecar_the_rings_tell_the_state_of_the_recorders(folder: str) -> None:
    recorder(folder)
    told = recorders(folder, "http://127.0.0.1:30000", ranks_expected=2)
    (process,) = told.processes
    assert (process.rank, process.running, told.ranks_expected) == ("tp0", True, 2)
    assert [(seam.name, seam.state) for seam in process.seams] == [
        ("PrefillAdder.add_one_req", "attached"),
        ("UnifiedRadixCache.init_load_back", "tripped"),
    ]
    assert told.requests is None


def test_a_ring_that_was_closed_is_of_a_process_that_has_ended(folder: str) -> None:
    recorder(folder).close()
    assert not recorders(folder, "127.0.0.1:30000", None).processes[0].running


def test_why_there_is_no_recorder_is_told(folder: str) -> None:
    with pytest.raises(NoRecorderError, match="no recorder in"):
        recorders(folder, "127.0.0.1:30000", None)
    recorder(folder, port=31000)
    with pytest.raises(NoRecorderError, match="none of the 1 recorders"):
        recorders(folder, "127.0.0.1:30000", None)
    Path(folder).chmod(0o777)
    with pytest.raises(NoRecorderError, match="written by others"):
        recorders(folder, "127.0.0.1:30000", None)
