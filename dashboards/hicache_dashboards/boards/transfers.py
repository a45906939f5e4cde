from __future__ import annotations

from hicache_dashboards.boards import traces
from hicache_dashboards.boards.model import Board, Panel, Row, Step
from hicache_dashboards.boards.steps import BELOW, none_is_good
from hicache_dashboards.config import Settings
from hicache_dashboards.palette import GOOD, NEUTRAL, WARN
from hicache_dashboards.queries import l2, machine


def board(settings: Settings) -> Board:
    return Board(
        "hicache-transfers",
        "HiCache: transfers",
        "Bytes between device and host: how many, how fast, how late, and what the bus itself has seen.",
        (_bytes(), _bus(), _time(), _decisions()),
    )


def _bytes() -> Row:
    return Row(
        "Bytes",
        (
            Panel(
                "Bytes moved, claimed by the recorder and by the engine",
                "Two sources for the same copies; all ranks added up.",
                "Bps",
                (l2.BYTES, l2.BYTES_ENGINE_UP, l2.BYTES_ENGINE_DOWN),
                span=12,
            ),
            Panel(
                "Bandwidth while copying",
                "Bytes over the time spent copying, on the device clock: idle time does not dilute it.",
                "Bps",
                (l2.BANDWIDTH,),
                span=12,
                alerts=("HiCacheTransfersSlow",),
            ),
            Panel("Transfers", "Finished copies a second.", "si:/s", (l2.TRANSFERS,), span=8),
            Panel(
                "Transfers dropped",
                "A flush came before they were seen finished.",
                "none",
                (l2.TRANSFERS_DROPPED,),
                span=8,
                steps=none_is_good("a flush met transfers in flight"),
            ),
            Panel(
                "By pool",
                "Slots of each pool; kv is counted in tokens.",
                "si:/s",
                (l2.POOL_LOAD_BACK, l2.POOL_BACKUP),
                span=8,
            ),
        ),
    )


def _bus() -> Row:
    return Row(
        "The bus, from the GPU's own counters",
        (
            Panel(
                "Bytes over PCIe beside bytes claimed",
                "The bus carries other traffic too, and 8 to 19 % of protocol: it must lie above what is claimed.",
                "Bps",
                (l2.PCIE_BYTES, l2.BYTES),
                span=12,
            ),
            Panel(
                "Claimed share of what crossed to the device",
                "0.85 to 0.93 under load-back alone, less with other traffic. Over 1, bytes were claimed that never"
                " crossed the bus.",
                "percentunit",
                (l2.PCIE_SHARE,),
                span=12,
                steps=(Step(1, WARN, "claimed more than crossed"),),
                alerts=("HiCacheVerdictsContradicted",),
            ),
            Panel("Link lanes", "Now and at most.", "none", (l2.LINK_LANES,), kind="bars", span=6),
            Panel("Link generation", "Now and at most.", "none", (l2.LINK_GENERATION,), kind="bars", span=6),
            Panel(
                "Packets sent again",
                "A healthy link replays next to nothing.",
                "si:/s",
                (l2.PCIE_REPLAYS,),
                span=6,
                alerts=("HiCacheTransfersSlow",),
            ),
            Panel(
                "Unsafe gaps in the counting",
                "The 32-bit counter may have wrapped unseen: PCIe bytes are a lower bound there.",
                "none",
                (l2.PCIE_GAPS,),
                span=6,
                steps=none_is_good("no physical witness in these windows"),
            ),
        ),
    )


def _time() -> Row:
    return Row(
        "Time",
        (
            Panel(
                "Duration of a load-back",
                "On the device clock. The points are exemplars: they open the trace.",
                "s",
                (l2.DURATION_HEATMAP,),
                kind="heatmap",
                span=12,
                traced=traces.transfer("host_to_device"),
            ),
            Panel("Duration by direction", "On the device clock.", "s", (l2.duration(0.5), l2.duration(0.95)), span=12),
            Panel(
                "Load-back wait",
                "From queueing a load-back to the engine seeing it finished: what a request can feel.",
                "s",
                (l2.wait(0.5), l2.wait(0.95)),
                span=12,
                alerts=("HiCacheTierTtftRegressed",),
            ),
            Panel(
                "The engine's own durations",
                "clock host times only the dispatch (engines before 0.5.16): never compare it with clock device.",
                "s",
                (l2.ENGINE_LOAD_BACK, l2.ENGINE_BACKUP),
                span=12,
            ),
        ),
    )


def _decisions() -> Row:
    return Row(
        "Promised, loaded, declined",
        (
            Panel(
                "Load-backs by outcome",
                "below_threshold is by design; over_quota, no_room and buffer_mode are load-backs declined.",
                "si:/s",
                (l2.OUTCOMES,),
                kind="stack",
                span=8,
                alerts=("HiCacheLoadBackDeclined",),
            ),
            Panel(
                "Host tokens promised and loaded",
                "A lookup's promise is not a load; the gap is what was declined.",
                "si:tok/s",
                (l2.PROMISED, l2.LOADED_FOR_REQUESTS),
                span=8,
                alerts=("HiCacheLoadBackDeclined",),
            ),
            Panel(
                "Read for each token written",
                "Tokens loaded back for each token backed up, in the last hour.",
                "percentunit",
                (l2.YIELD,),
                kind="stat",
                span=4,
                steps=(Step(BELOW, NEUTRAL, "little is read again"), Step(0.1, GOOD, "L2 is read again")),
                alerts=("HiCacheL2LowYield",),
            ),
            Panel(
                "Host memory under pressure",
                "Time that tasks waited for memory: pinned copies suffer first.",
                "percentunit",
                (machine.PRESSURE,),
                span=4,
            ),
        ),
    )
