"""A healthy engine, as the tests of the chain start from, and ways to change it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hicache_proof.chain.facts import ChainInput, Configuration, Counted, Mean, Pool, Probe, Process, Recorded, Seam

SEAMS = tuple(
    Seam(name=name, state="attached", fired=True)
    for name in ("PrefillAdder.add_one_req", "UnifiedRadixCache.init_load_back", "HiCacheController.start_loading")
)
RANK = Process(rank="tp0", running=True, seams=SEAMS)

CONFIGURATION = Configuration(
    version="0.5.23",
    hicache=True,
    metrics=True,
    write_policy="write_through",
    chunked_prefill_tokens=8192,
    tokenizer_workers=1,
)
COUNTED = Counted(
    since="the engine started",
    requests=100,
    prompt_tokens=400_000,
    device_capacity=65_536,
    host_capacity=196_608,
    host_used=150_000,
    backup_tokens=180_000,
    evicted_tokens=120_000,
    evicted_ever=120_000,
    load_back_tokens=60_000,
    cached_device=90_000,
    cached_host=60_000,
    cached_storage=0,
    cached_unattributed=0,
)
RECORDED = Recorded(
    since="the sidecar started",
    processes=(RANK,),
    ranks_expected=1,
    requests=100,
    promised_tokens=60_000,
    loaded_tokens=60_000,
    load_backs={"loaded": 20},
    backups_refused=0,
    demoted_tokens=120_000,
    dropped_tokens=0,
    host_evicted_tokens=30_000,
    ttft={"host": Mean(count=20, total=1.8), "none": Mean(count=40, total=20.0), "device": Mean(count=40, total=2.0)},
    load=Mean(count=20, total=0.4),
)
HEALTHY = ChainInput(configuration=CONFIGURATION, counted=COUNTED, recorded=RECORDED)


def engine(
    configuration: dict[str, Any] | None = None,
    counted: dict[str, Any] | None = None,
    recorded: dict[str, Any] | None = None,
    **facts: Any,
) -> ChainInput:
    """The healthy engine with some numbers replaced."""
    return replace(
        HEALTHY,
        **{
            "configuration": replace(CONFIGURATION, **(configuration or {})),
            "counted": replace(COUNTED, **(counted or {})),
            "recorded": replace(RECORDED, **(recorded or {})),
            **facts,
        },
    )


UNREAD = {"load_back_tokens": 0, "cached_host": 0}
"""The engine's counters where nothing was read from L2."""
UNMATCHED = {"promised_tokens": 0, "loaded_tokens": 0, "load_backs": {}, "host_evicted_tokens": 0}
"""The recorder's where no lookup found anything in L2."""
IDLE = {
    "requests": 0,
    "prompt_tokens": 0,
    "host_used": 0,
    "backup_tokens": 0,
    "evicted_tokens": 0,
    "cached_device": 0,
    **UNREAD,
}
MAMBA = Pool(name="mamba", capacity=4096, used=900)
LOST_FIELD = Probe(prompt_tokens=600, reply_cached_tokens=0, counted_cached_tokens=599)
