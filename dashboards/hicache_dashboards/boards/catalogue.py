"""All boards."""

from __future__ import annotations

from hicache_dashboards.boards import fleet, machine, overview, proof, storage, tiers, transfers, ttft
from hicache_dashboards.boards.model import Board
from hicache_dashboards.config import Settings


def boards(settings: Settings) -> tuple[Board, ...]:
    areas = (overview, tiers, transfers, ttft, proof, machine, storage, fleet)
    return tuple(area.board(settings) for area in areas)
