"""``python -m hicache_dashboards.session``: record what a sidecar serves; ``hicache-witness replay`` plays it again."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import click

from hicache_dashboards.session.model import Frame, save

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@click.group()
def main() -> None:
    """Sessions: a sidecar's metrics over some minutes."""


@main.command()
@click.argument("sidecar")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--minutes", default=5.0, show_default=True)
@click.option("--every", default=5.0, show_default=True, help="Seconds between two frames.")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Replace this text, such as an engine's address.")
@click.option(
    "--ring-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Keep the flight recorders of this folder too: from them a replay gives verdicts. No prompt is in them.",
)
def record(
    sidecar: str, file: Path, minutes: float, every: float, rename: tuple[str, ...], ring_dir: Path | None
) -> None:
    """Record what SIDECAR, a URL on this machine, serves under /metrics into FILE."""
    from hicache_dashboards.session.tape import renamed

    opener, began, frames = build_opener(ProxyHandler({})), time.monotonic(), list[Frame]()
    names = [(old, new) for old, _, new in (pair.partition("=") for pair in rename)]
    while (now := time.monotonic() - began) < minutes * 60:
        with opener.open(Request(f"{sidecar}/metrics", headers={"Accept": OPENMETRICS}), timeout=30) as reply:
            text = reply.read().decode()
        for old, new in names:
            text = text.replace(old, new)
        frames.append(Frame(round(now, 3), text))
        time.sleep(max(0, every * len(frames) - (time.monotonic() - began)))
    kept = sorted(ring_dir.glob("*.ring")) if ring_dir is not None else []
    save(file, frames, [renamed(ring.read_bytes(), names) for ring in kept], round(began * 1e9))
    click.echo(f"{len(frames)} frames, {file.stat().st_size} bytes")


@main.command()
@click.argument("rings", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--every", default=1.0, show_default=True, help="Seconds between two frames.")
@click.option("--begin", default=0.0, show_default=True, help="Seconds to pass over, such as those before the traffic.")
@click.option("--name", help="What the engine is called instead of its recorded address.")
def rings(rings: tuple[Path, ...], file: Path, every: float, begin: float, name: str | None) -> None:
    """Write into FILE what a sidecar would have served of recorded RINGS (gzipped, one a rank, of one engine).

    Only the recorder's families are there: an engine's metrics, GPUs and the machine were not recorded with a ring.
    The rings themselves are kept too, so that a replay gives verdicts.
    """
    from hicache_dashboards.session.rings import session_of

    try:
        made = session_of(rings, every, begin, name)
    except (OSError, ValueError, struct.error) as error:
        raise click.ClickException(f"no session can be made of these rings: {error}") from error
    save(file, made.frames, made.rings, made.begin_ns or 0)
    click.echo(f"{len(made.frames)} frames, {file.stat().st_size} bytes")
