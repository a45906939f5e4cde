"""What one attempt to read one engine brought."""

from __future__ import annotations

from dataclasses import dataclass

from hicache_exporter.core.engine_info import EngineInfo
from hicache_exporter.core.engine_text import EngineText

REASONS = (
    "timeout",
    "refused",
    "unreachable",
    "tls",
    "broken",
    "redirect",
    "unauthorized",
    "not_found",
    "http_4xx",
    "http_5xx",
    "http_other",
    "empty",
    "not_metrics",
    "too_large",
    "truncated",
    "decode",
    "no_token",
    "internal",
)
"""Why an engine could not be read. ``broken``: the connection ended early; ``not_metrics``: an answer without a
single family of the engine; ``internal``: a fault of the sidecar."""


@dataclass(frozen=True, slots=True)
class EngineReading:
    engine: str
    """host:port"""
    seconds: float
    """How long the engine's /metrics took, or how long it was waited for."""
    reason: str | None = None
    """Why there is no text; None: there is one."""
    text: EngineText | None = None
    info: EngineInfo | None = None
    """The last /server_info that is still good; None: not known."""
    tree: str | None = None
    """Class of the engine's tree, as its flight recorder says; None: no recorder."""

    @property
    def up(self) -> bool:
        return self.reason is None
