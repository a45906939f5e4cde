"""GPUs, the bus, and the memory that L2 lives in."""

from __future__ import annotations

from hicache_dashboards.queries import needs
from hicache_dashboards.queries.model import Query
from hicache_dashboards.queries.vocabulary import chosen, highest, increase, lowest, rate, share, total
from hicache_exporter import names

GPU_SOURCE = Query(highest(names.GPU_SOURCE, "state") + " > 0", "{{state}}", instant=True)
GPU_LOST = Query(f"{total(names.GPU_EXPECTED)} - {total(names.GPU_PRESENT)}", "lost", instant=True, optional=needs.GPU)
GPU_PRESENT = Query(lowest(names.GPU_PRESENT, "instance", "gpu"), "{{instance}} {{gpu}}", optional=needs.GPU)
GPU_REPORT_AGE = Query(highest(names.GPU_REPORT_AGE, "instance"), "{{instance}}", optional=needs.GPU)
GPU_UNOBSERVABLE = Query(
    highest(names.GPU_UNOBSERVABLE, "gpu", "fact", "reason"),
    "{{gpu}} {{fact}}: {{reason}}",
    instant=True,
    optional="empty if every fact is told",
)
GPU_INFO = Query(
    highest(names.GPU_INFO, "gpu", "index", "name", "bus_id", "driver"),
    "{{gpu}}",
    instant=True,
    optional=needs.GPU,
)
MEMORY_PARTS = Query(total(names.GPU_MEMORY, "part"), "{{part}}", optional=needs.GPU)
MEMORY_DRIVER = Query(total(names.GPU_MEMORY_RESERVED), "kept by the driver", optional=needs.GPU)
MEMORY_FREE = Query(f"{total(names.GPU_MEMORY_SIZE)} - {total(names.GPU_MEMORY_USED)}", "free", optional=needs.GPU)
MEMORY_HEADROOM = Query(
    share(
        f"({total(names.GPU_MEMORY_SIZE, 'gpu')} - {total(names.GPU_MEMORY_USED, 'gpu')})",
        total(names.GPU_MEMORY_SIZE, "gpu"),
    ),
    "{{gpu}}",
    instant=True,
    optional=needs.GPU,
)
PROCESS_MEMORY = Query(total(names.GPU_PROCESS_MEMORY, "gpu", "pid"), "{{gpu}} pid {{pid}}", optional=needs.GPU)
UTILIZATION = Query(highest(names.GPU_UTILIZATION, "gpu"), "{{gpu}} kernels", optional=needs.GPU)
MEMORY_UTILIZATION = Query(highest(names.GPU_MEMORY_UTILIZATION, "gpu"), "{{gpu}} memory", optional=needs.GPU)
POWER = Query(total(names.GPU_POWER, "gpu"), "{{gpu}}", optional=needs.GPU)
POWER_LIMIT = Query(total(names.GPU_POWER_LIMIT, "gpu"), "{{gpu}} limit", optional=needs.GPU)
TEMPERATURE = Query(highest(names.GPU_TEMPERATURE, "gpu"), "{{gpu}}", optional=needs.GPU)
CLOCK_EVENTS = Query(highest(names.GPU_CLOCK_EVENT, "reason"), "{{reason}}", optional=needs.GPU)
ECC = Query(increase(names.GPU_ECC_ERRORS, "gpu", "kind"), "{{gpu}} {{kind}}", instant=True, optional=needs.GPU)
ENERGY = Query(increase(names.GPU_ENERGY, "gpu"), "{{gpu}}", instant=True, optional=needs.GPU)
PROBE_RESTARTS = Query(
    increase(names.GPU_PROBE_RESTARTS, "reason", window="$__rate_interval"), "{{reason}}", optional=needs.GPU
)

HOST_TOTAL = Query(total(names.HOST_MEMORY, matchers={"kind": "total"}), "total")
HOST_AVAILABLE = Query(total(names.HOST_MEMORY, matchers={"kind": "available"}), "available")
HOST_LOCKED = Query(total(names.HOST_MEMORY, "kind", matchers={"kind": "=~locked|shared|unevictable"}), "{{kind}}")
HOST_HEADROOM = Query(
    share(
        total(names.HOST_MEMORY, matchers={"kind": "available"}),
        total(names.HOST_MEMORY, matchers={"kind": "total"}),
    ),
    "available",
    instant=True,
)
SWAP_USED = Query(
    f"{total(names.HOST_MEMORY, matchers={'kind': 'swap_total'})}"
    f" - {total(names.HOST_MEMORY, matchers={'kind': 'swap_free'})}",
    "swap in use",
)
PRESSURE = Query(highest(names.HOST_PRESSURE, "kind", "window"), "{{kind}}, {{window}}", optional=needs.PSI)
STALLED = Query(rate(names.HOST_STALLED, "kind"), "{{kind}}", optional=needs.PSI)
SHM = Query(total(names.HOST_SHM, "kind"), "{{kind}}")
L2_RATIO = Query(highest(names.HOST_L2_RATIO), "L2 ÷ memory", instant=True, optional=needs.PROCESS)
RANK_MEMORY = Query(total(names.RANK_MEMORY, "rank", "kind"), "rank {{rank}} {{kind}}", optional=needs.PROCESS)
RANK_VISIBLE = Query(lowest(names.RANK_VISIBLE, "engine", "rank"), "{{engine}} rank {{rank}}", optional=needs.PLUGIN)
SIDECAR_MEMORY = Query(
    highest(names.WITNESS_CGROUP, "instance", matchers={"kind": "current"}), "{{instance}}", optional=needs.CGROUP
)
RANK_L2 = Query(total(names.RANK_L2, "rank"), "rank {{rank}} L2 as configured", optional=needs.PROCESS)
RANK_PINNED = Query(total(names.RANK_L2_PINNED, "rank"), "rank {{rank}} pinned", optional=needs.PROCESS)
CGROUP_HEADROOM = Query(
    lowest(names.RANK_CGROUP, "engine", "rank", matchers={"kind": "headroom"}),
    "{{engine}} rank {{rank}}",
    optional=needs.LIMIT,
)
CGROUP_CURRENT = Query(
    highest(names.RANK_CGROUP, "engine", "rank", matchers={"kind": "current"}),
    "{{engine}} rank {{rank}}",
    optional=needs.PROCESS,
)
NUMA = Query(highest(names.RANK_NUMA, "rank", "node"), "rank {{rank}} on node {{node}}", optional=needs.PAGES)
NUMA_HIDDEN = Query(
    highest(names.RANK_NUMA_HIDDEN, "rank", "reason"),
    "rank {{rank}}: {{reason}}",
    instant=True,
    optional="empty if the nodes can be asked for",
)
GPU_NODE = Query(chosen(names.GPU_NUMA_NODE), "{{gpu}}", instant=True, optional=needs.GPU)
