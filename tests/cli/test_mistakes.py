"""What a user gets wrong in the first hour: one sentence that says what is wrong and what to do, never a traceback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner

from hicache_exporter.commands import commands

NOBODY = "127.0.0.1:9"  # the port of the discard service: nothing listens there
ANY = "127.0.0.1:30000"
USAGE, UNEXAMINED = 2, 3


class Stranger(BaseHTTPRequestHandler):
    """A web server that is no SGLang."""

    def do_GET(self) -> None:
        self.send_error(404)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield "{}:{}".format(*server.server_address)
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("line", "code", "wrong", "remedy"),
    [
        (f"lab --engine {NOBODY}", 2, "does not answer", "is the engine running?"),
        ("lab --engine STRANGER", 2, "404", "address of the server itself"),
        ("lab --engine 127.0.0.1:port", USAGE, "is no address", "write host:port"),
        ("lab --engine ftp://127.0.0.1:30000", USAGE, "scheme 'ftp'", "use http or https"),
        ("lab", USAGE, "Missing option '--engine'", "lab --help"),
        (f"lab --engine {ANY} --token-ids 9", USAGE, "not a range of token ids", "such as 1000-30000"),
        (f"lab --engine {ANY} --out /proc/out", 2, "can't write into /proc/out", "with --out"),
        ("demo --out /proc/out", 2, "can't write into /proc/out", "with --out"),
        (f"doctor --engine {NOBODY}", UNEXAMINED, "does not answer", "is the engine running there?"),
        (
            "doctor --engine STRANGER",
            UNEXAMINED,
            "/server_info answers 404",
            "not that of a router, a proxy or the sidecar",
        ),
        ("storage status --engine STRANGER", 2, "/server_info answers 404", "a router, a proxy or the sidecar"),
        (f"doctor --engine {ANY} --api-key-file /none", USAGE, "File '/none' does not exist", "doctor --help"),
        ("serve --listen 9838", USAGE, "can't listen on '9838'", "write host:port"),
        ("serve --engine 127.0.0.1", USAGE, "has no port", "127.0.0.1:30000"),
        ("serve --engine http://me:secret@127.0.0.1:1", USAGE, "must not hold a user", "use a token file"),
        ("serve --config /none.toml", USAGE, "config /none.toml", "No such file"),
        ("verify /none.json", 2, "/none.json", "No such file"),
        ("rules --set drop=1", USAGE, "'drop=1'", "of the form section.key=value"),
        ("prove", USAGE, "No such command 'prove'", "--help"),
    ],
)
def test_it_is_told(line: str, code: int, wrong: str, remedy: str, stranger: str) -> None:
    words = line.replace("STRANGER", stranger).split()
    said = CliRunner().invoke(commands, words, prog_name="hicache-witness", catch_exceptions=False)
    assert said.exit_code == code, said.output
    told = " ".join(said.stderr.split())
    assert wrong in told
    assert remedy in told
    assert "secret" not in told
