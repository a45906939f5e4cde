"""What a sidecar was asked to do. Checked once, here; every message is one sentence for the person who asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hicache_exporter.sources.bearer import Bearer
from hicache_exporter.sources.targets import Target

DEFAULT_RING_FOLDER = "/dev/shm/hicache-witness"
DEFAULT_LISTEN = "127.0.0.1:9838"


class SettingsError(ValueError):
    """The message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    engines: tuple[Target, ...] = ()
    """Without any (here or in files), every recorder in the ring folder is followed and no engine is read."""
    engine_files: tuple[Path, ...] = ()
    ring_folder: str = DEFAULT_RING_FOLDER
    host: str = "127.0.0.1"
    port: int = 9838
    bearer: Bearer = field(default_factory=Bearer)
    off: frozenset[str] = frozenset()
    """Names of collectors that are switched off."""

    @property
    def names_engines(self) -> bool:
        return bool(self.engines or self.engine_files)


def parse_listen(text: str) -> tuple[str, int]:
    """(host, port) of ``host:port``, ``:port`` (all addresses) or ``[v6]:port``. Raises SettingsError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) < 65536:
        raise SettingsError(f"can't listen on {text!r}: write host:port, for example {DEFAULT_LISTEN}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise SettingsError(f"can't listen on {text!r}: put an IPv6 address in brackets, for example [::1]:9838")
    return host, int(port)
