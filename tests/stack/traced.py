"""SGLang's own tracing in the demo engine, whose environment has no OpenTelemetry SDK: this one's is lent to it."""

from __future__ import annotations

import site
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

PACKAGES = ("opentelemetry", "grpc", "google")
"""The SDK, its exporter, and what these import; both interpreters are the same Python."""


def lend_packages(folder: Path) -> Path:
    """A folder for the engine's PYTHONPATH."""
    folder.mkdir()
    installed = Path(site.getsitepackages()[0])
    for path in (*(installed / name for name in PACKAGES), *installed.glob("opentelemetry_*.dist-info")):
        (folder / path.name).symlink_to(path)
    return folder


def arguments(port: int) -> tuple[str, ...]:
    """``port``: of a receiver of OTLP over gRPC."""
    return ("--enable-trace", "--otlp-traces-endpoint", f"127.0.0.1:{port}")


def set_level(engine: str, level: int) -> None:
    """0 is off. A request is traced by the level that held when it came in."""
    httpx.post(f"{engine}/set_trace_level", params={"level": level}, trust_env=False).raise_for_status()


@contextmanager
def tracing(engine: str) -> Iterator[None]:
    set_level(engine, 3)
    try:
        yield
    finally:
        set_level(engine, 0)
