from __future__ import annotations

from hicache_dashboards.boards.model import Board, Panel, Row, Step
from hicache_dashboards.boards.steps import BELOW, UP_DOWN, UP_DOWN_STEPS, headroom, none_is_good
from hicache_dashboards.config import Settings
from hicache_dashboards.palette import BAD, GOOD, WARN
from hicache_dashboards.queries import l2, machine


def board(settings: Settings) -> Board:
    return Board(
        "hicache-machine",
        "HiCache: GPU and host",
        "The GPUs that hold L1, the memory that holds L2, and the bus between them.",
        (_present(), _gpu_memory(settings), _gpu_work(), _host(settings), _ranks(settings)),
    )


def _present() -> Row:
    return Row(
        "Are the GPUs there, and what do they tell?",
        (
            Panel(
                "GPUs lost",
                "Seen since the sidecar started, and silent now.",
                "none",
                (machine.GPU_LOST,),
                kind="stat",
                span=4,
                steps=none_is_good("off the bus, hung, or taken away"),
                alerts=("HiCacheGpuLost",),
            ),
            Panel(
                "GPUs over time",
                "Does each answer?",
                "none",
                (machine.GPU_PRESENT,),
                kind="states",
                span=8,
                states=UP_DOWN,
                steps=UP_DOWN_STEPS,
                alerts=("HiCacheGpuLost",),
            ),
            Panel("Reading of GPUs", "The state that it is in.", "none", (machine.GPU_SOURCE,), kind="bars", span=4),
            Panel(
                "Age of what is known",
                "The driver is asked in a process of its own: a hung call makes this grow, not the scrape.",
                "s",
                (machine.GPU_REPORT_AGE,),
                span=4,
                alerts=("HiCacheGpuProbeStuck",),
            ),
            Panel(
                "Probes replaced",
                "By reason.",
                "none",
                (machine.PROBE_RESTARTS,),
                span=4,
                alerts=("HiCacheGpuProbeStuck",),
            ),
            Panel("GPUs", "Name, place, driver.", "none", (machine.GPU_INFO,), kind="table", span=12, height=6),
            Panel(
                "Not observable here",
                "Facts that a GPU does not tell, and why. Their series are absent, never 0.",
                "none",
                (machine.GPU_UNOBSERVABLE,),
                kind="table",
                span=12,
                height=6,
            ),
        ),
    )


def _gpu_memory(settings: Settings) -> Row:
    return Row(
        "GPU memory",
        (
            Panel(
                "What GPU memory is used for",
                "weights and kv_pool as the engine tells them; allocator_reserved is held beyond; other is the rest.",
                "bytes",
                (machine.MEMORY_PARTS, machine.MEMORY_DRIVER, machine.MEMORY_FREE),
                kind="stack",
                span=12,
                alerts=("HiCacheGpuMemoryLow",),
            ),
            Panel(
                "Free share",
                "HiCache stages copies on the GPU: it is one candidate when this runs out.",
                "percentunit",
                (machine.MEMORY_HEADROOM,),
                kind="bars",
                span=4,
                steps=headroom(settings.machine.gpu_memory_headroom, "the next allocation may fail"),
                alerts=("HiCacheGpuMemoryLow",),
            ),
            Panel("By process", "By the pid that the driver knows.", "bytes", (machine.PROCESS_MEMORY,), span=8),
        ),
    )


def _gpu_work() -> Row:
    return Row(
        "GPU at work",
        (
            Panel(
                "Utilisation",
                "Share of time with a kernel running, and with memory being read or written.",
                "percentunit",
                (machine.UTILIZATION, machine.MEMORY_UTILIZATION),
                maximum=1,
            ),
            Panel("Power", "Drawn, and the limit.", "watt", (machine.POWER, machine.POWER_LIMIT)),
            Panel("Temperature", "Of the GPU.", "celsius", (machine.TEMPERATURE,)),
            Panel(
                "Clocks held down",
                "1 while it is so, by reason: a slow TTFT may be heat or power.",
                "none",
                (machine.CLOCK_EVENTS,),
                span=8,
                alerts=("HiCacheTtftRegressed",),
            ),
            Panel(
                "Memory errors",
                "In the time range.",
                "none",
                (machine.ECC,),
                kind="bars",
                span=8,
                steps=none_is_good("uncorrected errors can damage content"),
                alerts=("HiCacheContentDamaged",),
            ),
            Panel("Bytes over PCIe", "Protocol included.", "Bps", (l2.PCIE_BYTES,), span=4),
            Panel("Energy", "In the time range.", "joule", (machine.ENERGY,), kind="bars", span=4),
        ),
    )


def _host(settings: Settings) -> Row:
    least = settings.machine.host_memory_headroom
    return Row(
        "Host memory",
        (
            Panel(
                "Memory of the machine",
                "available is what can still be had without swapping.",
                "bytes",
                (machine.HOST_TOTAL, machine.HOST_AVAILABLE, machine.HOST_LOCKED),
                span=8,
                alerts=("HiCacheHostMemoryLow",),
            ),
            Panel(
                "Available share",
                "Of the whole machine.",
                "percentunit",
                (machine.HOST_HEADROOM,),
                kind="stat",
                span=4,
                steps=headroom(least, "the kernel will reclaim or kill"),
                alerts=("HiCacheHostMemoryLow",),
            ),
            Panel(
                "L2 against the machine",
                "L2 of all ranks here, as a share of memory. Host pools are per rank: they add up.",
                "percentunit",
                (machine.L2_RATIO,),
                kind="stat",
                span=4,
                steps=(
                    Step(BELOW, GOOD, "fits"),
                    Step(0.5, WARN, "over half: starting may fail"),
                    Step(0.9, BAD, "leaves no room"),
                ),
                alerts=("HiCacheHostMemoryLow",),
            ),
            Panel(
                "Memory pressure",
                "Share of time that some or all tasks waited for memory.",
                "percentunit",
                (machine.PRESSURE,),
                span=8,
                alerts=("HiCacheMemoryPressure",),
            ),
            Panel("Stalled", "Seconds a second.", "percentunit", (machine.STALLED,), span=8),
            Panel("/dev/shm", "The rings live there.", "bytes", (machine.SHM,), span=8),
            Panel("Swap in use", "KV in swap is slower than recomputing.", "bytes", (machine.SWAP_USED,), span=8),
        ),
    )


def _ranks(settings: Settings) -> Row:
    return Row(
        "The engine's processes",
        (
            Panel(
                "Ranks that can be seen from here",
                "0: in another pid namespace, or ended; then nothing below is known of it.",
                "none",
                (machine.RANK_VISIBLE,),
                kind="states",
                span=12,
                height=5,
                states=UP_DOWN,
                steps=UP_DOWN_STEPS,
            ),
            Panel(
                "The sidecar's own memory",
                "Of its cgroup.",
                "bytes",
                (machine.SIDECAR_MEMORY,),
                span=12,
                height=5,
            ),
            Panel(
                "Memory of each rank",
                "resident, shared, locked, pinned, swapped.",
                "bytes",
                (machine.RANK_MEMORY,),
                span=12,
            ),
            Panel(
                "Pinned, beside L2 as configured",
                "A host pool that is not pinned copies slower, and may be swapped.",
                "bytes",
                (machine.RANK_PINNED, machine.RANK_L2),
                span=12,
                alerts=("HiCachePinningLost",),
            ),
            Panel(
                "Headroom in the cgroup",
                "What the container may still take before it is killed.",
                "bytes",
                (machine.CGROUP_HEADROOM, machine.CGROUP_CURRENT),
                span=8,
                alerts=("HiCacheCgroupMemoryLow",),
            ),
            Panel(
                "NUMA nodes of host memory",
                "Share of each rank's large mappings. Best: all on the node of its GPU.",
                "percentunit",
                (machine.NUMA,),
                kind="stack",
                span=8,
                maximum=1,
                alerts=("HiCacheTransfersSlow",),
            ),
            Panel("NUMA node of each GPU", "To compare.", "none", (machine.GPU_NODE,), kind="bars", span=4),
            Panel(
                "NUMA nodes hidden", "Why they can't be asked for.", "none", (machine.NUMA_HIDDEN,), kind="bars", span=4
            ),
        ),
    )
