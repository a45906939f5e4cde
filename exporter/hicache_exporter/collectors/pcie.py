"""The PCIe link of each GPU: bytes as true counters, how far they can be trusted, and the link's own state."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from hicache_exporter import names
from hicache_exporter.collectors.page import Page
from hicache_exporter.core.gpu_facts import GpuFacts
from hicache_exporter.sources.gpu_probe import GpuProbe


class PcieCollector:
    """``rx`` of a GPU is what reaches it: host to device."""

    def __init__(self, probe: GpuProbe) -> None:
        self._probe = probe

    def collect(self) -> Iterable[Metric]:
        page = Page()
        totals = self._probe.pcie_totals()
        for facts in self._probe.read().devices:
            if facts.state != "present":
                continue
            _link(page, facts)
            moved = totals.get(facts.uuid)
            if moved is None or "pcie_bytes" in facts.unobservable:
                continue
            page.add(names.PCIE_BYTES, moved.rx, facts.uuid, "host_to_device")
            page.add(names.PCIE_BYTES, moved.tx, facts.uuid, "device_to_host")
            page.add(names.PCIE_UNSAFE_GAPS, moved.unsafe_gaps, facts.uuid)
        return page.metrics()


def _link(page: Page, facts: GpuFacts) -> None:
    page.add(names.PCIE_GENERATION, facts.pcie_generation, facts.uuid, "current")
    page.add(names.PCIE_GENERATION, facts.pcie_generation_max, facts.uuid, "max")
    page.add(names.PCIE_LANES, facts.pcie_width, facts.uuid, "current")
    page.add(names.PCIE_LANES, facts.pcie_width_max, facts.uuid, "max")
    page.add(names.PCIE_REPLAYS, facts.pcie_replays, facts.uuid)
