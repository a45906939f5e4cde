"""Which engines to read: given one by one, or in files of Prometheus's file_sd form, read again when they change."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

log = logging.getLogger(__name__)

_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class TargetError(ValueError):
    """The message is one sentence for the person who wrote the target."""


@dataclass(frozen=True, slots=True)
class Target:
    engine: str
    """host:port, the label ``engine`` of every family."""
    origin: str
    """Scheme, host and port of the engine's other addresses."""
    path: str = "/metrics"
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def metrics_url(self) -> str:
        return self.origin + self.path


def parse_target(text: str, labels: Mapping[str, str] | None = None) -> Target:
    """``host:port`` or ``http(s)://host[:port][/path]``; ``__scheme__`` and ``__metrics_path__`` as in Prometheus.

    Raises TargetError.
    """
    labels = labels or {}
    full = text if "://" in text else f"{labels.get('__scheme__', 'http')}://{text}"
    if "@" in full:
        raise TargetError("an engine's address must not hold a user or a password: use a token file")
    try:
        parts = urlsplit(full)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise TargetError(f"engine {text!r} is no address: write host:port, for example 127.0.0.1:30000") from None
    if parts.scheme not in ("http", "https"):
        raise TargetError(f"engine {text!r} has the scheme {parts.scheme!r}: use http or https")
    if not host or parts.query or parts.fragment or " " in full or not full.isprintable():
        raise TargetError(f"engine {text!r} is no address: write host:port, for example 127.0.0.1:30000")
    if port is None and "://" not in text:
        raise TargetError(f"engine {text!r} has no port: write {text}:30000 if SGLang listens on its usual port")
    port = port or {"http": 80, "https": 443}[parts.scheme]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    path = parts.path.rstrip("/") or labels.get("__metrics_path__", "/metrics")
    return Target(place, f"{parts.scheme}://{place}", path, _visible(labels))


def _visible(labels: Mapping[str, str]) -> dict[str, str]:
    shown = {name: value for name, value in labels.items() if not name.startswith("__")}
    for name in shown:
        if not _LABEL_NAME.fullmatch(name) or name == "engine":
            raise TargetError(f"label {name!r} can't be used: write letters, digits and _, and not 'engine'")
    return shown


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    targets: list[str]
    labels: dict[str, str] = {}


def parse_targets(content: bytes, *, yaml: bool) -> list[Target]:
    """The engines in one file: a list of ``{targets: [...], labels: {...}}``. Raises TargetError."""
    decode = msgspec.yaml.decode if yaml else msgspec.json.decode
    try:
        groups = decode(content, type=list[_Group])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TargetError(f"not a list of {{targets, labels}}: {error}") from None
    return [parse_target(text, group.labels) for group in groups for text in group.targets]


class TargetsFile:
    """One file. When it is bad or gone, its last good list stays in use and ``ok`` is False."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ok = False
        self._targets: list[Target] = []
        self._seen: object = None
        self._trouble = ""

    def current(self) -> list[Target]:
        try:
            stat = self.path.stat()
            stamp: object = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError as error:
            stamp = type(error).__name__
        if stamp != self._seen:
            self._seen = stamp
            self._load()
        return self._targets

    def _load(self) -> None:
        try:
            self._targets = parse_targets(self.path.read_bytes(), yaml=self.path.suffix != ".json")
        except (OSError, TargetError) as error:
            self.ok = False
            self._warn((error.strerror if isinstance(error, OSError) else None) or " ".join(str(error).split()))
        else:
            self.ok = True
            self._trouble = ""
            log.info("engines file %s: %d engines", self.path, len(self._targets))

    def _warn(self, trouble: str) -> None:
        """Once: what writes the file may write the same again every minute."""
        if trouble != self._trouble:
            kept = (
                f"its last good list stays in use ({len(self._targets)} engines)"
                if self._targets
                else "no engine of it"
            )
            log.warning("engines file %s: %s; %s; it is read again when it changes", self.path, trouble, kept)
        self._trouble = trouble


class Targets:
    """All engines, each once, in the order in which they were given."""

    def __init__(self, engines: Iterable[Target] = (), files: Iterable[Path] = ()) -> None:
        self._engines = list(engines)
        self.files = [TargetsFile(path) for path in files]

    def current(self) -> list[Target]:
        """Looks at the files; cheap when none has changed."""
        found: dict[str, Target] = {}
        for target in [*self._engines, *(target for file in self.files for target in file.current())]:
            found.setdefault(target.engine, target)
        return list(found.values())
