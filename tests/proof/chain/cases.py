"""One case for each way in which HiCache fails to help: canned evidence, and what must be found in it."""

from __future__ import annotations

from typing import Any, NamedTuple

from hicache_proof.chain.facts import ChainInput, Mean, Pool, Probe, Process, Seam

from .engines import HEALTHY, LOST_FIELD, RANK, UNMATCHED, UNREAD, engine


class Case(NamedTuple):
    name: str
    facts: ChainInput
    finding: str
    broken: str | None
    """The first broken stage."""
    says: str
    """Part of what the finding says."""


def rank(name: str = "tp0", **changes: Any) -> Process:
    return Process(**{"rank": name, "running": True, "seams": RANK.seams, **changes})


def seams(state: str, fired: bool) -> tuple[Seam, ...]:
    return tuple(Seam(name=seam.name, state=state, fired=fired) for seam in RANK.seams)


CASES = [
    Case(
        "the engine does not answer", ChainInput(configuration_missing="refused"), "engine-silent", "flags", "refused"
    ),
    Case("HiCache is off", engine({"hicache": False}), "hicache-off", "flags", "switched off"),
    Case(
        "host memory is a staging buffer", engine({"host_memory_mode": "buffer_only"}), "buffer-mode", "flags", "buffer"
    ),
    Case(
        "DP without pinning",
        engine({"dp_size": 2}, recorded={"ranks_expected": None}),
        "dp-without-pinning",
        None,
        "2 data-parallel replicas",
    ),
    Case("prefill and decode are separate", engine({"disaggregation": "prefill"}), "both-sides-count", None, "prefill"),
    Case(
        "no recorder",
        ChainInput(configuration=HEALTHY.configuration, counted=HEALTHY.counted, recorded_missing="no sidecar"),
        "recorder-off",
        "plugin",
        "no sidecar",
    ),
    Case(
        "the recorder of a dead process only",
        engine(recorded={"processes": (rank(running=False),)}),
        "recorder-off",
        "plugin",
        "no process",
    ),
    Case(
        "a recorder, and no sidecar that counts",
        engine(recorded={"no_sidecar": "the sidecar: http://127.0.0.1:9838 does not answer"}),
        "no-sidecar",
        None,
        "does not answer",
    ),
    Case(
        "a sidecar that has followed an earlier run of the engine",
        engine(recorded={"engine_restarts": 1, "requests": None}),
        "sidecar-older-than-engine",
        None,
        "at least 1 restart(s) of the engine",
    ),
    Case(
        "a rank without a recorder",
        engine(recorded={"ranks_expected": 4}),
        "rank-without-recorder",
        "plugin",
        "1 of 4 ranks",
    ),
    Case(
        "an engine function is not known",
        engine(recorded={"processes": (rank(not_recorded=("init_load_back",)),)}),
        "seam-missing",
        "plugin",
        "init_load_back",
    ),
    Case(
        "a seam has switched itself off",
        engine(recorded={"processes": (rank(seams=seams("tripped", True), not_recorded=("init_load_back",)),)}),
        "seam-tripped",
        "plugin",
        "add_one_req",
    ),
    Case(
        "attached, never fired",
        engine(recorded={"processes": (rank(seams=seams("attached", False)),)}),
        "never-fired",
        None,
        "no seam has fired in tp0",
    ),
    Case("records lost", engine(recorded={"lost_records": 7}), "records-lost", None, "7 records lost"),
    Case(
        "metrics are off",
        ChainInput(configuration=engine({"metrics": False}).configuration, recorded=HEALTHY.recorded),
        "metrics-off",
        "metrics",
        "--enable-metrics is not set",
    ),
    Case(
        "metrics can't be read",
        ChainInput(configuration=HEALTHY.configuration, recorded=HEALTHY.recorded, counted_missing="unauthorized"),
        "metrics-off",
        "metrics",
        "unauthorized",
    ),
    Case(
        "counters TP times too high",
        engine({"tp_size": 4}, {"ranks_added_up": 4}, {"ranks_expected": None}),
        "counters-times-ranks",
        None,
        "4 times",
    ),
    Case(
        "a metric is missing",
        engine(counted={"missing": (("load_back_bytes_total", "sglang>=0.5.18"),)}),
        "families-missing",
        None,
        "load_back_bytes_total (sglang>=0.5.18)",
    ),
    Case(
        "a policy that never backed up: write_back",
        engine({"write_policy": "write_back"}, {"backup_tokens": 0, "host_used": 0, **UNREAD}, UNMATCHED),
        "policy-never-backed-up",
        "backup",
        "write_back",
    ),
    Case(
        "a policy that never backed up: selective",
        engine({"write_policy": "write_through_selective"}, {"backup_tokens": 0, "host_used": 0, **UNREAD}, UNMATCHED),
        "policy-never-backed-up",
        "backup",
        "selective",
    ),
    Case(
        "the same on an engine that counts no backups",
        engine(
            {"write_policy": "write_through_selective"}, {"backup_tokens": None, "host_used": 0, **UNREAD}, UNMATCHED
        ),
        "policy-never-backed-up",
        "backup",
        "selective",
    ),
    Case(
        "prompts longer than the chunk",
        engine({"chunked_prefill_tokens": 2048}, {"backup_tokens": 0, "host_used": 0, **UNREAD}, UNMATCHED),
        "prompt-over-chunk",
        "backup",
        "the mean prompt has 4,000 tokens, the chunked prefill size is 2,048",
    ),
    Case(
        "prompts longer than the chunk, some backed up",
        engine({"chunked_prefill_tokens": 2048}),
        "prompts-over-chunk",
        None,
        "4,000",
    ),
    Case(
        "nothing backed up under write_through",
        engine(counted={"backup_tokens": 0, "host_used": 0, **UNREAD}, recorded=UNMATCHED),
        "nothing-backed-up",
        "backup",
        "write_through has backed up nothing",
    ),
    Case(
        "the host pool is smaller than the device pool",
        engine(counted={"host_capacity": 30_000, "host_used": 9_000}),
        "host-smaller-than-device",
        None,
        "L2 holds 30,000 tokens, L1 65,536",
    ),
    Case("backups refused", engine(recorded={"backups_refused": 3}), "backups-refused", None, "3 backups refused"),
    Case(
        "L1 was never full",
        engine(counted={"evicted_tokens": 0, "evicted_ever": 0, **UNREAD}, recorded=UNMATCHED),
        "l1-never-full",
        None,
        "nothing has left L1 yet",
    ),
    Case(
        "L1 kept everything while it was watched",
        engine(counted={"evicted_tokens": 0, **UNREAD}, recorded=UNMATCHED, watched_seconds=3.2),
        "l1-kept-meanwhile",
        None,
        "nothing left L1 in these 3 s; 120,000 tokens had left it before",
    ),
    Case(
        "no eviction since the recorder is followed, and an engine that counts none",
        engine(
            counted={"evicted_tokens": None, "evicted_ever": None, **UNREAD},
            recorded={"demoted_tokens": 0, **UNMATCHED},
        ),
        "l1-kept-meanwhile",
        None,
        "nothing left L1 since its recorder is followed",
    ),
    Case(
        "evicted without a copy",
        engine(recorded={"dropped_tokens": 200_000}),
        "evicted-without-copy",
        None,
        "200,000 tokens left L1 without a copy, 120,000 with",
    ),
    Case("L2 is empty", engine(counted={"host_used": 0}), "l2-empty", None, "180,000 tokens were backed up"),
    Case(
        "a state pool is empty",
        engine(counted={"pools": (Pool(name="mamba", capacity=4096, used=0),)}),
        "pool-empty",
        None,
        "pool mamba is empty",
    ),
    Case(
        "L2 evicted first",
        engine(counted=UNREAD, recorded={**UNMATCHED, "host_evicted_tokens": 30_000}),
        "l2-evicted-first",
        "occupancy",
        "30,000 tokens left L2",
    ),
    Case(
        "L2 evicted first, by the counters alone",
        ChainInput(
            configuration=HEALTHY.configuration, counted=engine(counted={"backup_tokens": 500_000, **UNREAD}).counted
        ),
        "l2-evicted-first",
        "plugin",
        "500,000 tokens were backed up into room for 196,608",
    ),
    Case(
        "stored, never matched: a hybrid model",
        engine(counted={"hybrid": True, "cached_device": 0, **UNREAD}, recorded=UNMATCHED),
        "stored-never-matched",
        "match",
        "a hybrid model",
    ),
    Case(
        "stored, never matched, though L1 is",
        engine(counted=UNREAD, recorded=UNMATCHED),
        "stored-never-matched",
        "match",
        "90,000 tokens were reused from L1",
    ),
    Case(
        "no reuse at all",
        engine(counted={"cached_device": 0, **UNREAD}, recorded=UNMATCHED),
        "no-reuse-seen",
        None,
        "nothing was reused from L1 either",
    ),
    Case(
        "below the load-back threshold",
        engine(
            counted=UNREAD, recorded={"promised_tokens": 90, "loaded_tokens": 0, "load_backs": {"below_threshold": 10}}
        ),
        "below-threshold",
        "load_back",
        "10 of 10 load-backs declined, mostly below threshold",
    ),
    Case(
        "over quota",
        engine(counted=UNREAD, recorded={"loaded_tokens": 0, "load_backs": {"over_quota": 10, "no_room": 1}}),
        "over-quota",
        "load_back",
        "over quota",
    ),
    Case(
        "no room in L1",
        engine(counted=UNREAD, recorded={"loaded_tokens": 0, "load_backs": {"no_room": 2}}),
        "no-room",
        "load_back",
        "no room",
    ),
    Case(
        "declined for an unknown reason",
        engine(counted=UNREAD, recorded={"loaded_tokens": 0, "load_backs": {"unknown": 2}}),
        "declined",
        "load_back",
        "unknown",
    ),
    Case(
        "some load-backs declined",
        engine(recorded={"promised_tokens": 75_000, "load_backs": {"loaded": 20, "no_room": 5}}),
        "some-declined",
        None,
        "5 of 25 load-backs declined",
    ),
    Case(
        "multi-tokenizer mode loses the split",
        engine({"tokenizer_workers": 4}, {"cached_host": 0, "cached_device": 0, "cached_unattributed": 150_000}),
        "multi-tokenizer",
        "attribution",
        "150,000 cached tokens have no tier; 4 tokenizer workers",
    ),
    Case(
        "no split for another reason",
        engine(counted={"cached_host": 0, "cached_unattributed": 150_000}),
        "unattributed",
        "attribution",
        "150,000 cached tokens have no tier",
    ),
    Case(
        "loaded, credited elsewhere",
        engine(counted={"cached_host": 0}),
        "attributed-elsewhere",
        "attribution",
        "60,000 tokens loaded back, 0 credited",
    ),
    Case(
        "credited, never loaded",
        engine(counted={"load_back_tokens": 0}),
        "claimed-not-moved",
        "attribution",
        "0 tokens loaded back, 60,000 credited",
    ),
    Case(
        "loaded TP times as much as credited",
        engine({"tp_size": 4}, {"load_back_tokens": 240_000}, {"ranks_expected": None}),
        "more-moved-than-credited",
        None,
        "4.0 times as many (TP x PP is 4)",
    ),
    Case(
        "the per-request field is unreliable",
        engine(probe=LOST_FIELD),
        "reply-unreliable",
        None,
        "the reply says 0, the engine counted 599",
    ),
    Case(
        "the per-request field is missing",
        engine(probe=Probe(prompt_tokens=600, reply_cached_tokens=None, counted_cached_tokens=599)),
        "reply-unreliable",
        None,
        "no number",
    ),
    Case(
        "hit, but late",
        engine(
            recorded={
                "ttft": {"host": Mean(count=20, total=10.0), "none": Mean(count=40, total=20.0)},
                "load": Mean(count=20, total=8.0),
            }
        ),
        "hit-but-late",
        "benefit",
        "400 ms of it for the load",
    ),
    Case(
        "hit, but no gain",
        engine(recorded={"ttft": {"host": Mean(count=20, total=1.0), "none": Mean(count=40, total=2.0)}}),
        "hit-no-gain",
        "benefit",
        "TTFT 50 ms from L2 against 50 ms computed",
    ),
]
