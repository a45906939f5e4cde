"""An engine's storage API over replicas that can fail one by one, with the answers of a real SGLang 0.5.23."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from ..served import served

ADMIN_KEY = "s3cret"
PATH = "/hicache/storage-backend"
NO_ADMIN_KEY = {
    "error": "This endpoint requires admin API key, but this server was started without one (admin-api-key). "
    "Restart with --admin-api-key to enable."
}


class FakeEngine:
    def __init__(self, replicas: int = 1, **changes: Any) -> None:
        self.backends: list[str | None] = [None] * replicas
        self.frontend: str | None = None
        self.broken: set[int] = set()
        """Replicas that fail at any switch."""
        self.not_idle = 0
        """So many switches are refused because copies are under way."""
        self.running = 0
        self.finished = 7.0
        self.finishes_a_look = 0.0
        self.admin_key: str | None = ADMIN_KEY
        self.has_api = True
        self.old = False
        """It tells its load only as older releases do; two requests wait."""
        self.switches: list[tuple[str, dict[str, Any]]] = []
        self.info = {"version": "0.5.23", "tp_size": 1, "dp_size": replicas, "enable_hierarchical_cache": True}
        self.info |= {"api_key": "planted", "admin_api_key": "planted"} | changes

    def get(self, path: str) -> tuple[int, str]:
        if path == "/server_info":
            states = [{"hicache_storage_backend": b, "hicache_write_policy": "write_through"} for b in self.backends]
            return 200, json.dumps({**self.info, "hicache_storage_backend": None, "internal_states": states})
        if path == "/get_load" and self.old:
            return 200, json.dumps([{"dp_rank": None, "num_reqs": self.running + 2, "num_waiting_reqs": 2}])
        if path.startswith("/v1/loads") and not self.old:
            loads = [{"dp_rank": n, "num_running_reqs": self.running} for n in range(len(self.backends))]
            return 200, json.dumps({"loads": loads})
        if path == "/metrics":
            self.finished += self.finishes_a_look
            return 200, f'sglang:num_requests_total{{model_name="m"}} {self.finished}\n'
        return 404, ""

    def switch(self, method: str, body: dict[str, Any]) -> tuple[int, str]:
        if method == "GET":
            return 200, json.dumps({"hicache_storage_backend": self.frontend})
        self.switches.append((method, body))
        wanted, verb = body.get("hicache_storage_backend"), "attach" if method == "PUT" else "detach"
        if self.not_idle:
            self.not_idle -= 1
            said = f"Reject {verb}: scheduler is not idle. #queue-req=0 #running-req=0"
            return 400, f"Failed to {verb} HiCache storage backend.\n{said}\n"
        words = []
        for replica in range(len(self.backends)):
            if replica in self.broken:
                words.append(f"Failed to {verb}: disk full")
            else:
                self.backends[replica] = wanted
                words.append(f"{verb}ed")
        if self.broken:
            return 400, f"Failed to {verb} HiCache storage backend.\n{' | '.join(words)}\n"
        self.frontend = wanted
        return 200, f"HiCache storage backend {verb}ed.\n{' | '.join(words)}\n"

    def answer(self, method: str, path: str, authorization: str | None, body: dict[str, Any]) -> tuple[int, str]:
        if path != PATH:
            return self.get(path)
        if not self.has_api:
            return 404, '{"detail":"Not Found"}'
        if self.admin_key is None:
            return 400, json.dumps(NO_ADMIN_KEY)
        if authorization != f"Bearer {self.admin_key}":
            return 401, '{"error":"Unauthorized"}'
        return self.switch(method, body)


@contextmanager
def serving(engine: FakeEngine) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}")
            status, text = engine.answer(self.command, self.path, self.headers["Authorization"], body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = do_DELETE = _answer  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with served(Handler) as url:
        yield url
