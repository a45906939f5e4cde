"""``python -m hicache_dashboards.session``: record what a sidecar serves, and serve it again."""

from __future__ import annotations

import struct
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import ProxyHandler, Request, build_opener

import click

from hicache_dashboards import runbook
from hicache_dashboards.session.model import Frame, Session, load, save

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
def record(sidecar: str, file: Path, minutes: float, every: float, rename: tuple[str, ...]) -> None:
    """Record what SIDECAR, a URL, serves under /metrics into FILE."""
    opener, began, frames = build_opener(ProxyHandler({})), time.monotonic(), list[Frame]()
    while (now := time.monotonic() - began) < minutes * 60:
        with opener.open(Request(f"{sidecar}/metrics", headers={"Accept": OPENMETRICS}), timeout=30) as reply:
            text = reply.read().decode()
        for old, _, new in (pair.partition("=") for pair in rename):
            text = text.replace(old, new)
        frames.append(Frame(round(now, 3), text))
        time.sleep(max(0, every * len(frames) - (time.monotonic() - began)))
    save(file, frames)
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
    """
    from hicache_dashboards.session.rings import frames

    try:
        made = list(frames(rings, every, begin, name))
    except (OSError, ValueError, struct.error) as error:
        raise click.ClickException(f"no session can be made of these rings: {error}") from error
    save(file, made)
    click.echo(f"{len(made)} frames, {file.stat().st_size} bytes")


@main.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--listen", default="127.0.0.1:9838", show_default=True, envvar="HICACHE_WITNESS_LISTEN")
def replay(file: Path, listen: str) -> None:
    """Serve FILE as the sidecar would have, at the speed at which it was recorded, for ever."""
    host, _, port = listen.rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), _handler(load(file)))
    click.echo(f"replaying {file} at http://{listen}/metrics")
    server.serve_forever()


def _handler(session: Session) -> type[BaseHTTPRequestHandler]:
    began = time.monotonic()

    def metrics() -> str:
        return session.at(time.monotonic() - began)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, kind, body = 200, "text/plain", "ok\n"
            if self.path == "/metrics":
                kind, body = OPENMETRICS, metrics()
            elif text := runbook.page(self.path.removeprefix("/runbooks/") or runbook.INDEX):
                kind, body = "text/html; charset=utf-8", text
            elif self.path not in ("/-/healthy", "/-/ready"):
                status, body = 404, "a recorded session, played again: there is only /metrics, and no engine\n"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler
