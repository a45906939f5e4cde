"""GPUs as NVML shows them: the last report of the probe, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.page import Page
from hicache_exporter.core.gpu_facts import PROBE_STATES, GpuFacts
from hicache_exporter.core.memory_split import EngineMemory, split
from hicache_exporter.core.rank_process import RankProcess
from hicache_exporter.sources.gpu_probe import GpuProbe, GpuReading
from hicache_exporter.sources.host import Host
from hicache_exporter.sources.nvml import CLOCK_EVENTS


class GpuCollector:
    """``ranks`` gives the engine processes of this machine, with their own account of the GPU's memory."""

    def __init__(self, probe: GpuProbe, host: Host, ranks: Callable[[], Iterable[RankProcess]]) -> None:
        self._probe, self._host, self._ranks = probe, host, ranks

    def collect(self) -> Iterable[Metric]:
        page, reading = Page(), self._probe.read()
        self._source(page, reading)
        states = {facts.uuid: facts.state for facts in reading.devices}
        for uuid in self._probe.expected():
            page.add(names.GPU_EXPECTED, 1, uuid)
            page.add(names.GPU_PRESENT, states.get(uuid) == "present", uuid)
        ranks = list(self._ranks())
        for facts in reading.devices:
            for fact, reason in facts.unobservable.items():
                page.add(names.GPU_UNOBSERVABLE, 1, facts.uuid, fact, reason)
            if facts.state == "present":
                self._identity(page, facts, reading.driver_version or "")
                _memory(page, facts, _engines_on(facts.uuid, ranks, len(states)))
                _activity(page, facts)
        return page.metrics()

    def _source(self, page: Page, reading: GpuReading) -> None:
        for state in PROBE_STATES:
            page.add(names.GPU_SOURCE, state == reading.state, state)
        page.add(names.GPU_REPORT_AGE, reading.age_seconds)
        for reason, count in self._probe.restarts.items():
            page.add(names.GPU_PROBE_RESTARTS, count, reason)

    def _identity(self, page: Page, facts: GpuFacts, driver: str) -> None:
        index = "" if facts.index is None else str(facts.index)
        page.add(names.GPU_INFO, 1, facts.uuid, index, facts.name or "", facts.bus_id or "", driver)
        if facts.bus_id is not None:
            page.add(names.GPU_NUMA_NODE, self._host.numa_node(facts.bus_id), facts.uuid)


def _engines_on(uuid: str, ranks: Iterable[RankProcess], gpus: int) -> list[EngineMemory]:
    """By the GPU's uuid, never by pid. A rank that does not tell its GPU can only be on the one there is."""
    return [
        rank.memory or EngineMemory(None, None, None)
        for rank in ranks
        if rank.gpu_uuid == uuid or (rank.gpu_uuid is None and gpus == 1)
    ]


def _memory(page: Page, facts: GpuFacts, engines: list[EngineMemory]) -> None:
    page.add(names.GPU_MEMORY_SIZE, facts.memory_total_bytes, facts.uuid)
    page.add(names.GPU_MEMORY_USED, facts.memory_used_bytes, facts.uuid)
    page.add(names.GPU_MEMORY_RESERVED, facts.memory_reserved_bytes, facts.uuid)
    for part, value in split(facts.memory_used_bytes, engines).items():
        page.add(names.GPU_MEMORY, value, facts.uuid, part)
    for process in facts.processes or ():
        page.add(names.GPU_PROCESS_MEMORY, process.used_bytes, facts.uuid, str(process.pid))


def _activity(page: Page, facts: GpuFacts) -> None:
    uuid = facts.uuid
    page.add(names.GPU_UTILIZATION, facts.utilization_ratio, uuid)
    page.add(names.GPU_MEMORY_UTILIZATION, facts.memory_utilization_ratio, uuid)
    page.add(names.GPU_POWER, facts.power_watts, uuid)
    page.add(names.GPU_POWER_LIMIT, facts.power_limit_watts, uuid)
    page.add(names.GPU_ENERGY, facts.energy_joules, uuid)
    page.add(names.GPU_TEMPERATURE, facts.temperature_celsius, uuid)
    page.add(names.GPU_ECC_ERRORS, facts.ecc_corrected, uuid, "corrected")
    page.add(names.GPU_ECC_ERRORS, facts.ecc_uncorrected, uuid, "uncorrected")
    if facts.clock_events is not None:
        for reason in CLOCK_EVENTS:
            page.add(names.GPU_CLOCK_EVENT, reason in facts.clock_events, uuid, reason)
