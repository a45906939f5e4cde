"""The plugin's settings: the only reader of the environment inside the engine."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Literal, cast

from hicache_tracing.records import DEFAULT_CAPACITY

logger = logging.getLogger("hicache_witness")

DEFAULT_FOLDER = "/dev/shm/hicache-witness"  # a ring is memory: tmpfs, and it outlives the process

Content = Literal["off", "sampled", "full"]


@dataclass(frozen=True, slots=True)
class Settings:
    folder: str = DEFAULT_FOLDER
    capacity: int = DEFAULT_CAPACITY
    content: Content = "off"
    seams_off: frozenset[str] = frozenset()

    @classmethod
    def from_environment(cls) -> Settings:
        """HICACHE_WITNESS_DIR, _SLOTS, _CONTENT, _SEAMS_OFF. A bad value is named once and its default taken."""
        env = os.environ
        capacity = DEFAULT_CAPACITY
        if text := env.get("HICACHE_WITNESS_SLOTS"):
            if text.isdecimal() and len(text) < 10 and 1024 <= int(text) <= 1 << 24:
                capacity = int(text)
            else:
                logger.warning(
                    "HICACHE_WITNESS_SLOTS=%s is not a number from 1024 to 16777216: using %d", text, capacity
                )
        content = env.get("HICACHE_WITNESS_CONTENT") or "off"
        if content not in ("off", "sampled", "full"):
            logger.warning("HICACHE_WITNESS_CONTENT=%s is not off, sampled or full: using off", content)
            content = "off"
        names = (name.strip() for name in env.get("HICACHE_WITNESS_SEAMS_OFF", "").split(","))
        return cls(
            folder=env.get("HICACHE_WITNESS_DIR") or DEFAULT_FOLDER,
            capacity=capacity,
            content=cast("Content", content),
            seams_off=frozenset(filter(None, names)),
        )
