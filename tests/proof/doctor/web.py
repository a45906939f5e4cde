"""A web server that gives canned answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from ..served import served

DATA = Path(__file__).parent / "data"
ENGINE = {
    "/server_info": DATA.joinpath("server_info.json").read_bytes(),
    "/metrics": DATA.joinpath("engine-metrics.txt").read_bytes(),
}
SIDECAR = {"/metrics": DATA.joinpath("sidecar.txt").read_bytes()}
"""A real SGLang 0.5.23 on CPU and its sidecar, right after a lab run, cut down to what is read."""


@contextmanager
def answering(pages: Mapping[str, bytes], key: str | None = None) -> Iterator[str]:
    """Serve these pages on a free port; with a ``key`` only to those who send it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path)
            status = 401 if key and self.headers["Authorization"] != f"Bearer {key}" else 404 if body is None else 200
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body or b"" if status == 200 else b"")

        def log_message(self, *args: object) -> None:
            pass

    with served(Handler) as url:
        yield url


def sidecar_of(engine: str) -> dict[str, bytes]:
    """The sidecar's page with the recorded engine under another address."""
    return {"/metrics": SIDECAR["/metrics"].replace(b"127.0.0.1:30149", engine.removeprefix("http://").encode())}
