"""Every metric family that the sidecar serves, once. Collectors, dashboards, rules and docs import these.

Prefix ``hicache_``, base units, no colons. Every family carries the label ``engine`` (host:port of the server) unless
it describes the sidecar itself or the machine (GPU, bus, host); the labels listed here come on top of it.

Token families are *logical*: one rank speaks for all ranks of a tensor-parallel group, data-parallel replicas add up.
Byte families add up over ranks. Families with the label ``rank`` keep each rank apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

Type = Literal["counter", "gauge", "histogram", "info"]
Source = Literal["recorder", "proof", "engine", "gpu", "host", "sidecar"]
UNITS = ("seconds", "bytes", "tokens", "ratio", "watts", "joules", "celsius")


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    """Name as Prometheus stores it (counters without the suffix _total)."""
    type: Type
    help: str
    labels: tuple[str, ...] = ()
    source: Source = "recorder"
    buckets: tuple[float, ...] = ()

    @property
    def unit(self) -> str:
        """Its name ends with it; "": a plain number."""
        last = self.name.rpartition("_")[2]
        return last if last in UNITS else ""

    @property
    def series(self) -> str:
        """The name of its samples in PromQL (histograms: without _bucket, _sum, _count)."""
        return self.name + "_total" if self.type == "counter" else self.name


TIERS = ("device", "host", "storage")
ALL_TIERS = (*TIERS, "unattributed")
SERVING = ("device", "host", "storage", "mixed", "none", "unattributed")
DIRECTIONS = ("host_to_device", "device_to_host")
OUTCOMES = (
    "loaded",
    "below_threshold",
    "over_quota",
    "no_room",
    "buffer_mode",
    "unknown",
)
DIFFERENCES = ("unplaced", "surplus")
CAUSES = ("demoted", "dropped", "host_evicted")
VERDICTS = ("corroborated", "proven", "consistent", "contradicted", "not_observed", "no_read")
CONTENT_STATES = ("intact", "damaged", "not_checked")
CONTENT_TOKEN_STATES = ("matched", "mismatched", "unseen")
LOSS_REASONS = ("overwritten", "torn", "unknown_kind", "writer_dropped")
FORGOTTEN = ("requests", "operations", "transfers", "nodes", "slots")
RING_STATES = ("followed", "waiting", "ended", "other_engine")
SPAN_OUTCOMES = ("exported", "dropped", "failed")

TTFT_BUCKETS = (
    0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5,
    2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
TRANSFER_BUCKETS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
)  # fmt: skip

_FAMILIES: list[Family] = []


def _family(
    name: str,
    kind: Type,
    about: str,
    labels: tuple[str, ...] = (),
    *,
    source: Source = "recorder",
    buckets: tuple[float, ...] = (),
) -> Family:
    family = Family(name, kind, about, labels, source, buckets)
    _FAMILIES.append(family)
    return family


_proof = partial(_family, source="proof")
_engine = partial(_family, source="engine")
_gpu = partial(_family, source="gpu")
_host = partial(_family, source="host")
_sidecar = partial(_family, source="sidecar")


# -- from the flight recorder ------------------------------------------------------------------------------------
HIT_TOKENS = _family(
    "hicache_hit_tokens",
    "counter",
    "Prompt tokens served from each tier, counted once a request, at admission.",
    ("tier",),
)
HIT_DIFFERENCE = _family(
    "hicache_hit_difference_tokens",
    "counter",
    "Difference between what the engine calls cached and the sum of its tiers: unplaced (cached, in no tier), surplus "
    "(in a tier, not cached). Measured, not made to fit: 0 while its accounts agree.",
    ("kind",),
)
COMPUTED_TOKENS = _family("hicache_computed_tokens", "counter", "Prompt tokens that had to be computed.")
PROMPT_TOKENS = _family("hicache_prompt_tokens", "counter", "Prompt tokens of admitted requests.")
REQUESTS = _family("hicache_requests", "counter", "Admitted requests by the tier that served their prefix.", ("tier",))
TTFT = _family(
    "hicache_ttft_seconds",
    "histogram",
    "Time from the scheduler receiving a request to its first token, by serving tier.",
    ("tier",),
    buckets=TTFT_BUCKETS,
)
TRANSFERS = _family("hicache_transfers", "counter", "Transfers between device and host that finished.", ("direction",))
TRANSFER_TOKENS = _family("hicache_transfer_tokens", "counter", "Tokens moved by finished transfers.", ("direction",))
TRANSFER_BYTES = _family(
    "hicache_transfer_bytes", "counter", "Bytes moved by finished transfers, all ranks.", ("direction",)
)
TRANSFER_SECONDS = _family(
    "hicache_transfer_seconds",
    "histogram",
    "Duration of a transfer on the device clock, where the engine times it.",
    ("direction",),
    buckets=TRANSFER_BUCKETS,
)
TRANSFER_TIMED_BYTES = _family(
    "hicache_transfer_timed_bytes",
    "counter",
    "Bytes of the transfers that hicache_transfer_seconds times: by its sum, the bandwidth without idle time.",
    ("direction",),
)
TRANSFERS_DROPPED = _family(
    "hicache_transfers_dropped",
    "counter",
    "Transfers that a cache reset dropped before they were seen finished.",
    ("direction",),
)
EVICTED_TOKENS = _family(
    "hicache_evicted_tokens",
    "counter",
    "Tokens that left a tier: demoted (host copy kept), dropped (no copy), host_evicted.",
    ("cause",),
)
BACKUPS_REFUSED = _family("hicache_backups_refused", "counter", "Backups refused for lack of room in the host pool.")
LOAD_BACKS = _family("hicache_load_backs", "counter", "Load-backs asked for, by outcome.", ("outcome",))
LOAD_BACK_PROMISED = _family(
    "hicache_load_back_promised_tokens", "counter", "Host tokens promised to requests by the lookup."
)
LOAD_BACK_LOADED = _family("hicache_load_back_loaded_tokens", "counter", "Host tokens really loaded for requests.")
RESETS = _family("hicache_resets", "counter", "Cache resets (flush).")
L2_REUSE_GAP = _family(
    "hicache_l2_reuse_gap_seconds",
    "histogram",
    "Time between a backup to the host and the load that read it back.",
    buckets=(0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400),
)
L2_LIFETIME = _family(
    "hicache_l2_lifetime_seconds",
    "histogram",
    "Time between a backup to the host and the moment when the last of its slots was filled by another one.",
    buckets=(0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400),
)
LOAD_BACK_WAIT = _family(
    "hicache_load_back_wait_seconds",
    "histogram",
    "Time between a load-back being queued and the engine seeing its transfer finished.",
    buckets=TRANSFER_BUCKETS,
)

# -- proofs ------------------------------------------------------------------------------------------------------
VERDICTS_TOTAL = _proof(
    "hicache_verdicts", "counter", "Requests judged, by verdict on the claim that they read L2.", ("verdict",)
)
CONTENT_TOTAL = _proof(
    "hicache_content_checks", "counter", "Requests with an L2 read, by what the content witness found.", ("content",)
)
CONTENT_SLOTS = _proof("hicache_content_tokens", "counter", "Loaded tokens compared with their signature.", ("state",))

# -- recorder health ---------------------------------------------------------------------------------------------
RECORDER_UP = _family(
    "hicache_recorder_up", "gauge", "1 while the flight recorder of a rank is open and its process alive.", ("rank",)
)
RECORDS = _family("hicache_recorder_records", "counter", "Records read.", ("rank",))
RECORDS_LOST = _family(
    "hicache_recorder_lost_records",
    "counter",
    "Records lost: overwritten before they were read, torn, of an unknown kind, dropped by the writer.",
    ("rank", "reason"),
)
RECORDER_LAG = _family("hicache_recorder_fill_ratio", "gauge", "Unread share of the ring at the last read.", ("rank",))
LEDGER_FORGOTTEN = _family(
    "hicache_ledger_forgotten",
    "counter",
    "What the ledger had to forget to stay within its bounds: requests, operations, transfers, nodes, slots.",
    ("rank", "what"),
)
RINGS = _sidecar(
    "hicache_recorder_rings",
    "gauge",
    "Flight recorders in the ring folder, by what the sidecar does with them; waiting: its engine is not up yet.",
    ("state",),
)
RINGS_REFUSED = _sidecar(
    "hicache_recorder_rings_refused",
    "gauge",
    "Files in the ring folder (or the folder itself) that are not read, by reason.",
    ("reason",),
)
SEAM_STATE = _family(
    "hicache_seam_state",
    "gauge",
    "1 for the state that a seam is in: attached, tripped, unrecognised, missing, pending.",
    ("rank", "seam", "state"),
)
SEAM_FIRED = _family("hicache_seam_fired", "gauge", "1 once the seam has fired.", ("rank", "seam"))
SEAM_FAULTS = _family("hicache_seam_faults", "counter", "Faults of ours in a seam.", ("rank", "seam"))

# -- the engine's own metrics, under stable names -----------------------------------------------------------------
ENGINE_UP = _engine("hicache_engine_up", "gauge", "1 if the engine's /metrics was read in this scrape.")
ENGINE_SCRAPE_SECONDS = _engine("hicache_engine_scrape_duration_seconds", "gauge", "Time the engine's /metrics took.")
ENGINE_SCRAPE_FAILURES = _engine(
    "hicache_engine_scrape_failures", "counter", "Failed reads of the engine's /metrics, by reason.", ("reason",)
)
ENGINE_INFO = _engine(
    "hicache_engine",
    "info",
    "Engine version, model, tree, write policy, page size, ranks.",
    ("version", "model", "tree", "write_policy", "page_size", "tp_size", "dp_size", "hicache", "storage", "role"),
)
ENGINE_CACHED_TOKENS = _engine(
    "hicache_engine_cached_tokens",
    "counter",
    "Cached tokens by source, as the engine counts them when a request finishes.",
    ("tier",),
)
ENGINE_PROMPT_TOKENS = _engine("hicache_engine_prompt_tokens", "counter", "Prompt tokens, as the engine counts them.")
ENGINE_LOAD_BACK_TOKENS = _engine(
    "hicache_engine_load_back_tokens", "counter", "Tokens loaded back, as the engine counts them, in logical tokens."
)
ENGINE_LOAD_BACK_BYTES = _engine("hicache_engine_load_back_bytes", "counter", "Bytes loaded back, all ranks.")
ENGINE_BACKUP_TOKENS = _engine(
    "hicache_engine_backup_tokens", "counter", "Tokens backed up to the host, in logical tokens."
)
ENGINE_BACKUP_BYTES = _engine("hicache_engine_backup_bytes", "counter", "Bytes backed up to the host, all ranks.")
ENGINE_EVICTED_TOKENS = _engine(
    "hicache_engine_evicted_tokens", "counter", "Tokens evicted from L1, in logical tokens."
)
ENGINE_CAPACITY = _engine("hicache_engine_capacity_tokens", "gauge", "Size of a tier.", ("tier",))
ENGINE_USED = _engine(
    "hicache_engine_used_tokens", "gauge", "Used part of a tier (device: in use by requests).", ("tier",)
)
ENGINE_EVICTABLE = _engine("hicache_engine_evictable_tokens", "gauge", "Cached tokens that L1 may evict.")
ENGINE_RUNNING = _engine("hicache_engine_running_requests", "gauge", "Requests running.")
ENGINE_QUEUED = _engine("hicache_engine_queued_requests", "gauge", "Requests waiting.")
ENGINE_TTFT = _engine(
    "hicache_engine_ttft_seconds", "histogram", "Time to first token over all requests, in the engine's own buckets."
)
ENGINE_FAMILY_MISSING = _engine(
    "hicache_engine_family_missing",
    "gauge",
    "1 for an engine metric that is expected and absent; flag: what would bring it.",
    ("family", "flag"),
)

ENGINE_TIER_SEEN = _engine(
    "hicache_engine_tier_seen",
    "gauge",
    "1 once the engine itself has reported cached tokens of this tier; 0 while the sidecar's zero stands in for it.",
    ("tier",),
)
ENGINE_PREFILL_TOKENS = _engine(
    "hicache_engine_prefill_tokens",
    "counter",
    "Prompt tokens of scheduled prefills by what served them: device, host, storage, computed; unattributed where "
    "the engine does not say which tier.",
    ("served_by",),
)
ENGINE_GENERATION_TOKENS = _engine("hicache_engine_generation_tokens", "counter", "Tokens generated.")
ENGINE_FINISHED_REQUESTS = _engine(
    "hicache_engine_finished_requests", "counter", "Requests that the engine has finished."
)
ENGINE_DROPPED_TOKENS = _engine(
    "hicache_engine_dropped_tokens",
    "counter",
    "Tokens destroyed in L1 with no host copy, by reason, in logical tokens.",
    ("reason",),
)
ENGINE_QUEUE_SECONDS = _engine(
    "hicache_engine_queue_seconds", "histogram", "Time in the waiting queue, in the engine's own buckets."
)
ENGINE_LOAD_BACK_SECONDS = _engine(
    "hicache_engine_load_back_seconds",
    "histogram",
    "Duration of a load-back, in the engine's own buckets; clock: device = the copy itself, host = only its dispatch "
    "(engines before 0.5.16), unknown = the version is not known. Never compare one with the other.",
    ("clock",),
)
ENGINE_BACKUP_SECONDS = _engine(
    "hicache_engine_backup_seconds", "histogram", "Duration of a backup to the host, in the engine's own buckets."
)
ENGINE_POOL_CAPACITY = _engine(
    "hicache_engine_pool_capacity_slots",
    "gauge",
    "Size of a pool beside the KV pool (swa, mamba), in its own slots.",
    ("tier", "pool"),
)
ENGINE_POOL_USED = _engine(
    "hicache_engine_pool_used_slots", "gauge", "Used slots of a pool beside the KV pool (swa, mamba).", ("tier", "pool")
)
ENGINE_POOL_EVICTABLE = _engine(
    "hicache_engine_pool_evictable_slots",
    "gauge",
    "Cached slots that a pool beside the KV pool (swa, mamba) may evict in L1.",
    ("pool",),
)
ENGINE_POOL_LOAD_BACK = _engine(
    "hicache_engine_pool_load_back_slots",
    "counter",
    "Slots loaded back, by pool; the pool kv holds tokens and is also hicache_engine_load_back_tokens_total.",
    ("pool",),
)
ENGINE_POOL_BACKUP = _engine(
    "hicache_engine_pool_backup_slots",
    "counter",
    "Slots backed up to the host, by pool; the pool kv is also hicache_engine_backup_tokens_total.",
    ("pool",),
)
ENGINE_STORAGE_PREFETCHED_TOKENS = _engine(
    "hicache_engine_storage_prefetched_tokens",
    "counter",
    "Tokens moved from L3 storage to the host, in logical tokens.",
)
ENGINE_STORAGE_BACKUP_TOKENS = _engine(
    "hicache_engine_storage_backup_tokens", "counter", "Tokens written from the host to L3 storage, in logical tokens."
)
ENGINE_STORAGE_HIT_TOKENS = _engine(
    "hicache_engine_storage_hit_tokens",
    "counter",
    "Tokens that an L3 query found, before anything was moved, in logical tokens.",
)
ENGINE_STORAGE_UNFULFILLED_TOKENS = _engine(
    "hicache_engine_storage_unfulfilled_tokens",
    "counter",
    "Tokens found in L3 that did not become a usable prefetch, by reason, in logical tokens.",
    ("reason",),
)
ENGINE_STORAGE_DEFERRED_TOKENS = _engine(
    "hicache_engine_storage_deferred_tokens",
    "counter",
    "Tokens of prefetch attempts put off for lack of room, by reason, in logical tokens.",
    ("reason",),
)
ENGINE_STORAGE_BACKUP_DROPPED_TOKENS = _engine(
    "hicache_engine_storage_backup_dropped_tokens",
    "counter",
    "Tokens that never reached L3 because their backup was refused or too late, in logical tokens.",
)
ENGINE_RANKS_EXPECTED = _engine(
    "hicache_engine_ranks_expected",
    "gauge",
    "Ranks that should report on this address, from the engine's own configuration, by reporter: scheduler, tree.",
    ("reporter",),
)
ENGINE_RANKS_SEEN = _engine(
    "hicache_engine_ranks_seen", "gauge", "Ranks that do report on this address.", ("reporter",)
)
ENGINE_RANK_BASIS = _engine(
    "hicache_engine_rank_basis",
    "gauge",
    "How many ranks one counter of the engine stood for, and what was done: one_rank (labelled, the ranks repeat the "
    "same number), divided (the engine had added its ranks up), summed (the ranks add up).",
    ("family", "basis"),
)
ENGINE_RESTARTS = _engine("hicache_engine_restarts", "counter", "Restarts of the engine that the sidecar noticed.")
ENGINE_BACKWARD_STEPS = _engine(
    "hicache_engine_backward_steps",
    "counter",
    "Counters of the engine that fell although it had not restarted; the last value is held meanwhile.",
)
ENGINE_UNREADABLE_LINES = _engine(
    "hicache_engine_unreadable_lines", "gauge", "Lines of the engine's last answer that could not be read."
)
ENGINE_INFO_READ = _engine(
    "hicache_engine_server_info_up",
    "gauge",
    "1 if the engine's /server_info is known (ranks, capacities, flags); without it summed counters are withheld.",
)
ENGINE_TARGET = _sidecar("hicache_engine_target", "info", "Labels that the targets file gives an engine.")
ENGINE_TARGETS_FILE_OK = _sidecar(
    "hicache_engine_targets_file_ok",
    "gauge",
    "1 if the targets file was read; 0 while the last good list stands in for it.",
    ("file",),
)

# -- GPU, bus and host: these describe the machine and carry no ``engine`` but where it is listed ---------------------
GPU_SOURCE = _gpu("hicache_gpu_source", "gauge", "1 for the state that the reading of GPUs is in.", ("state",))
GPU_REPORT_AGE = _gpu("hicache_gpu_report_age_seconds", "gauge", "Age of what is known of the GPUs.")
GPU_PROBE_RESTARTS = _gpu(
    "hicache_gpu_probe_restarts",
    "counter",
    "GPU probe processes that had to be replaced: hung in a driver call, or ended.",
    ("reason",),
)
GPU_EXPECTED = _gpu("hicache_gpu_expected", "gauge", "1 for every GPU seen since the sidecar started.", ("gpu",))
GPU_PRESENT = _gpu("hicache_gpu_present", "gauge", "1 if the GPU answers, 0 if it is lost, hung or gone.", ("gpu",))
GPU_UNOBSERVABLE = _gpu(
    "hicache_gpu_unobservable",
    "gauge",
    "1 for a fact that this GPU does not tell, and why. Its series are absent.",
    ("gpu", "fact", "reason"),
)
GPU_INFO = _gpu("hicache_gpu", "info", "Name, place and driver of a GPU.", ("gpu", "index", "name", "bus_id", "driver"))
GPU_MEMORY_SIZE = _gpu("hicache_gpu_memory_size_bytes", "gauge", "Memory of the GPU.", ("gpu",))
GPU_MEMORY_USED = _gpu("hicache_gpu_memory_used_bytes", "gauge", "Memory in use, by all processes.", ("gpu",))
GPU_MEMORY_RESERVED = _gpu(
    "hicache_gpu_memory_driver_bytes", "gauge", "Memory that the driver keeps for itself.", ("gpu",)
)
GPU_MEMORY = _gpu(
    "hicache_gpu_memory_bytes",
    "gauge",
    "Used memory by what it is used for: weights, kv_pool, allocator_reserved (held beyond those two), other. "
    "A part that the engines do not tell is absent.",
    ("gpu", "part"),
)
GPU_PROCESS_MEMORY = _gpu(
    "hicache_gpu_process_memory_bytes",
    "gauge",
    "Memory of a compute process, by the pid that the driver knows.",
    ("gpu", "pid"),
)
GPU_UTILIZATION = _gpu("hicache_gpu_utilization_ratio", "gauge", "Share of time with a kernel running.", ("gpu",))
GPU_MEMORY_UTILIZATION = _gpu(
    "hicache_gpu_memory_utilization_ratio", "gauge", "Share of time with device memory being read or written.", ("gpu",)
)
GPU_POWER = _gpu("hicache_gpu_power_watts", "gauge", "Power drawn.", ("gpu",))
GPU_POWER_LIMIT = _gpu("hicache_gpu_power_limit_watts", "gauge", "Power limit.", ("gpu",))
GPU_ENERGY = _gpu("hicache_gpu_energy_joules", "counter", "Energy since the driver was loaded.", ("gpu",))
GPU_TEMPERATURE = _gpu("hicache_gpu_temperature_celsius", "gauge", "Temperature of the GPU.", ("gpu",))
GPU_CLOCK_EVENT = _gpu(
    "hicache_gpu_clock_event", "gauge", "1 while the clocks are held down for this reason.", ("gpu", "reason")
)
GPU_ECC_ERRORS = _gpu(
    "hicache_gpu_ecc_errors",
    "counter",
    "Memory errors since the driver was loaded: corrected, uncorrected.",
    ("gpu", "kind"),
)
GPU_NUMA_NODE = _gpu("hicache_gpu_numa_node", "gauge", "NUMA node that the GPU is attached to.", ("gpu",))
PCIE_BYTES = _gpu(
    "hicache_pcie_bytes",
    "counter",
    "Bytes that crossed the GPU's PCIe link, protocol included, from its own counters; a lower bound if there were "
    "unsafe gaps.",
    ("gpu", "direction"),
)
PCIE_UNSAFE_GAPS = _gpu(
    "hicache_pcie_unsafe_gaps",
    "counter",
    "Gaps between two readings of a direction in which its counter may have wrapped unseen, or counting began anew; of "
    "both directions.",
    ("gpu",),
)
PCIE_GENERATION = _gpu("hicache_pcie_link_generation", "gauge", "PCIe generation: current, max.", ("gpu", "state"))
PCIE_LANES = _gpu("hicache_pcie_link_lanes", "gauge", "PCIe lanes: current, max.", ("gpu", "state"))
PCIE_REPLAYS = _gpu("hicache_pcie_replays", "counter", "Packets sent again on the PCIe link.", ("gpu",))
HOST_MEMORY = _host(
    "hicache_host_memory_bytes",
    "gauge",
    "Memory of the machine: total, available, free, shared, locked, unevictable, swap_total, swap_free.",
    ("kind",),
)
HOST_PRESSURE = _host(
    "hicache_host_memory_pressure_ratio",
    "gauge",
    "Share of time in which some or all (full) tasks waited for memory, over 10, 60 and 300 seconds.",
    ("kind", "window"),
)
HOST_STALLED = _host(
    "hicache_host_memory_stalled_seconds",
    "counter",
    "Time in which some or all (full) tasks waited for memory.",
    ("kind",),
)
HOST_SHM = _host("hicache_host_shm_bytes", "gauge", "Room of /dev/shm: size, free.", ("kind",))
HOST_L2_RATIO = _host(
    "hicache_host_l2_configured_ratio", "gauge", "L2 configured by all ranks on this machine, as a share of its memory."
)
WITNESS_CGROUP = _host(
    "hicache_witness_cgroup_memory_bytes",
    "gauge",
    "Memory of the sidecar's own cgroup: current, limit, high, headroom. A limit that is not set is absent.",
    ("kind",),
)
RANK_VISIBLE = _host(
    "hicache_rank_process_visible",
    "gauge",
    "1 if the process of the rank can be seen from here; 0 in another pid namespace, or ended.",
    ("engine", "rank"),
)
RANK_MEMORY = _host(
    "hicache_rank_memory_bytes",
    "gauge",
    "Host memory of the rank's process: resident, resident_shared, locked, pinned, swapped.",
    ("engine", "rank", "kind"),
)
RANK_CGROUP = _host(
    "hicache_rank_cgroup_memory_bytes",
    "gauge",
    "Memory of the cgroup that the rank's process is in: current, limit, high, headroom.",
    ("engine", "rank", "kind"),
)
RANK_NUMA = _host(
    "hicache_rank_memory_node_ratio",
    "gauge",
    "Share of the rank's large host mappings on each NUMA node, from a sample of their pages.",
    ("engine", "rank", "node"),
)
RANK_NUMA_HIDDEN = _host(
    "hicache_rank_memory_node_hidden",
    "gauge",
    "1 if the NUMA nodes of the rank's memory can't be asked for, and why.",
    ("engine", "rank", "reason"),
)
RANK_L2 = _host(
    "hicache_rank_l2_configured_bytes",
    "gauge",
    "Size of the rank's L2 as configured: host tokens times KV bytes of a token.",
    ("engine", "rank"),
)
RANK_L2_PINNED = _host(
    "hicache_rank_l2_pinned_bytes",
    "gauge",
    "Of the rank's host pool, what its own process holds pinned for its GPU; the kernel's counts do not see that.",
    ("engine", "rank"),
)

# -- the sidecar itself ------------------------------------------------------------------------------------------
BUILD_INFO = _sidecar("hicache_witness_build", "info", "Version of the sidecar.", ("version", "python"))
COLLECTOR_SUCCESS = _sidecar(
    "hicache_collector_success", "gauge", "1 if the collector worked in this scrape.", ("collector",)
)
COLLECTOR_SECONDS = _sidecar("hicache_collector_duration_seconds", "gauge", "Time the collector took.", ("collector",))
SPAN_EXPORT = _sidecar(
    "hicache_span_export",
    "gauge",
    "1 for the state of the export of spans: on, off (no endpoint given), refused (bad settings, see the log).",
    ("state",),
)
SCRAPES_REFUSED = _sidecar(
    "hicache_scrapes_refused", "counter", "Scrapes answered with 503 because too many were under way."
)
SPANS = _sidecar("hicache_spans", "counter", "Spans by what became of them: exported, dropped, failed.", ("outcome",))

FAMILIES: dict[str, Family] = {family.name: family for family in _FAMILIES}
