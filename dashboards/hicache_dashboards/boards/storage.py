from __future__ import annotations

from hicache_dashboards.boards import traces
from hicache_dashboards.boards.model import Board, Panel, Row, Step
from hicache_dashboards.boards.steps import BELOW
from hicache_dashboards.config import Settings
from hicache_dashboards.palette import GOOD, WARN
from hicache_dashboards.queries import storage


def board(settings: Settings) -> Board:
    return Board(
        "hicache-storage",
        "HiCache: storage (L3)",
        "What storage had, what of it was fetched in time, what was served, and what was written.",
        (_read(settings), _write(), _time()),
    )


def _read(settings: Settings) -> Row:
    return Row(
        "From storage",
        (
            Panel(
                "Found, fetched, served",
                "Each step loses something: the gap between found and fetched is below, by reason.",
                "si:tok/s",
                (storage.HIT, storage.PREFETCHED, storage.SERVED, storage.SERVED_ENGINE),
                span=12,
            ),
            Panel(
                "Share of the prompt served by storage",
                "As the engine counts.",
                "percentunit",
                (storage.SHARE_OF_PROMPT,),
                span=8,
            ),
            Panel(
                "Fetched of what was found",
                "In the last hour.",
                "percentunit",
                (storage.PREFETCH_YIELD,),
                kind="stat",
                span=4,
                steps=(
                    Step(BELOW, WARN, "much of what storage has comes too late"),
                    Step(settings.storage.least_fetched, GOOD, "storage keeps up"),
                ),
                alerts=("HiCacheStoragePrefetchTimeouts",),
            ),
            Panel(
                "Found and not fetched, by reason",
                "deadline: storage is too slow for the prefetch policy; host_capacity: L2 has no room for it.",
                "si:tok/s",
                (storage.UNFULFILLED,),
                kind="stack",
                span=12,
                alerts=("HiCacheStoragePrefetchTimeouts",),
            ),
            Panel("Put off, by reason", "For lack of room.", "si:tok/s", (storage.DEFERRED,), kind="stack", span=12),
        ),
    )


def _write() -> Row:
    return Row(
        "To storage",
        (
            Panel("Written", "From the host pool to L3.", "si:tok/s", (storage.BACKED_UP,), span=12),
            Panel(
                "Never reached storage",
                "Backups refused or too late.",
                "si:tok/s",
                (storage.BACKUP_DROPPED,),
                span=12,
            ),
        ),
    )


def _time() -> Row:
    return Row(
        "Does it pay?",
        (
            Panel(
                "TTFT of requests served by storage, beside cold ones",
                "Storage pays only below the line of cold requests.",
                "s",
                (storage.TTFT_MEAN, storage.TTFT_P95, storage.TTFT_COLD),
                span=24,
                traced=traces.hit("storage"),
            ),
        ),
    )
