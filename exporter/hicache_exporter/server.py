"""The sidecar's HTTP face: /metrics, /proofs, health, and the live page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Any

import msgspec
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from hicache_dashboards import runbook
from hicache_exporter import encoding
from hicache_exporter.app import App
from hicache_exporter.core.scrape_budget import scrape_budget
from hicache_exporter.core.timeline import timeline
from hicache_exporter.overview import overview, summary
from hicache_exporter.registry import UnknownCollectorError

MAX_SCRAPES = 8
MAX_WAITS = 64
LONGEST_WAIT = 60.0
DEFAULT_PROOFS = 50
MAX_PROOFS = 512
COMPRESS_FROM = 1024  # bytes

PATHS = "/, /metrics, /proofs, /proofs/REQUEST_ID, /state, /runbooks/, /-/healthy and /-/ready"

PAGE_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

_encoder = msgspec.json.Encoder()


class Server:
    """Handlers of one sidecar."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._scrapes = 0
        self._waits = 0

    def application(self, middlewares: Iterable[Middleware] = ()) -> web.Application:
        application = web.Application(client_max_size=1024, middlewares=(*middlewares, _in_json))
        application.router.add_get("/metrics", self.metrics)
        application.router.add_get("/-/healthy", self.healthy)
        application.router.add_get("/-/ready", self.ready)
        application.router.add_get("/proofs", self.proofs)
        application.router.add_get("/proofs/{request_id:.+}", self.proof)
        application.router.add_get("/state", self.state)
        application.router.add_get("/runbooks/{name:\\w*}", self.runbook)
        application.router.add_get("/", self.page)
        application.router.add_get("/page/{name:[a-z]+\\.(css|js)}", self.page)
        return application

    # -- for Prometheus ----------------------------------------------------------------------------------------

    async def metrics(self, request: web.Request) -> web.Response:
        if self._scrapes >= MAX_SCRAPES:
            self._app.scrapes.refused += 1
            return web.Response(status=503, text="too many scrapes at once\n", headers={"Retry-After": "1"})
        self._scrapes += 1
        try:
            budget = scrape_budget(request.headers.get("X-Prometheus-Scrape-Timeout-Seconds"))
            families = await self._app.scrape(request.query.getall("collect[]", []), budget)
            encode, content_type = encoding.choose(request.headers.get(hdrs.ACCEPT, ""))
            body = encode(families)
        except UnknownCollectorError as error:
            return web.Response(status=400, text=f"{error}\n")
        finally:
            self._scrapes -= 1
        headers = {hdrs.CONTENT_TYPE: content_type}
        if len(body) >= COMPRESS_FROM and "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
            body = encoding.compressed(body)
            headers[hdrs.CONTENT_ENCODING] = "gzip"
        return web.Response(body=body, headers=headers)

    async def healthy(self, _request: web.Request) -> web.Response:
        """Whether this process does its work; not whether an engine does."""
        if self._app.healthy:
            return web.Response(text="healthy\n")
        return web.Response(status=500, text="the rings are not followed any more\n")

    async def ready(self, _request: web.Request) -> web.Response:
        if self._app.ready:
            return web.Response(text="ready\n")
        return web.Response(status=503, text="the ring folder was not looked through yet\n")

    # -- for people and for the lab ------------------------------------------------------------------------------

    async def proofs(self, request: web.Request) -> web.Response:
        limit = _number(request, "limit", DEFAULT_PROOFS, int, MAX_PROOFS)
        self._app.catch_up()
        found = [summary(proof) for proof, _ in zip(self._app.judging.recent(), range(int(limit)), strict=False)]
        return _json({"proofs": found})

    async def proof(self, request: web.Request) -> web.Response:
        """One request's proof. ``wait``: how long to wait for a final one, in seconds."""
        request_id = request.match_info["request_id"]
        wait = _number(request, "wait", 0.0, float, LONGEST_WAIT)
        if wait and self._waits >= MAX_WAITS:
            return _json({"error": "too many clients are waiting for proofs, try again"}, status=503)
        self._waits += 1
        try:
            await self._wait_for(request_id, wait)
        finally:
            self._waits -= 1
        proof = self._app.judging.of(request_id)
        if proof is None:
            return _json({"error": self._why_none(request_id)}, status=404)
        events = timeline(proof.ledger, proof.story)
        told = {"evidence": proof.evidence, "judgement": proof.judgement, "events": events, "final": proof.final}
        return _json({**told, "summary": summary(proof)})

    async def _wait_for(self, request_id: str, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        self._app.catch_up()
        while (left := deadline - loop.time()) > 0:
            proof = self._app.judging.of(request_id)
            if proof is not None and proof.final:
                return
            await self._app.news(left)

    def _why_none(self, request_id: str) -> str:
        for engine in self._app.follower.engines.values():
            witnessed = engine.find(request_id)
            if witnessed is not None:
                state = "admitted" if witnessed.story.admit is not None else "not admitted yet"
                return f"request {request_id} was seen ({state}) and is not judged yet: ask with ?wait=10"
        if not self._app.follower.followed:
            if (trouble := self._app.follower.folder.trouble) is not None:
                return f"no flight recorder is read: {trouble}"
            folder = self._app.settings.ring_folder
            return f"no flight recorder is read: is the engine running with HICACHE_WITNESS=1, its rings in {folder}?"
        return f"request {request_id} is not known: no recorder told of it, or it was too long ago"

    async def state(self, _request: web.Request) -> web.Response:
        """What the live page shows."""
        await self._app.look()
        return _json(self._overview())

    def _overview(self) -> dict[str, Any]:
        return overview(self._app)

    async def page(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        file = files("hicache_exporter").joinpath("page", name)
        if not file.is_file():
            raise web.HTTPNotFound
        content_type = PAGE_TYPES[name[name.rindex(".") :]]
        return web.Response(
            text=file.read_text("utf-8"), content_type=content_type, charset="utf-8", headers=PAGE_HEADERS
        )

    async def runbook(self, request: web.Request) -> web.Response:
        """Where the links of the alerts lead, unless they are set to lead elsewhere."""
        text = runbook.page(request.match_info["name"] or runbook.INDEX)
        if text is None:
            raise web.HTTPNotFound
        return web.Response(text=text, content_type="text/html", charset="utf-8", headers=PAGE_HEADERS)


@web.middleware
async def _in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """What is not there, in the form of all other errors, with what there is."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return _json({"error": f"there is no {request.path[:200]} here; there are {PATHS}"}, status=404)
    except web.HTTPMethodNotAllowed as error:
        allowed = {hdrs.ALLOW: ", ".join(sorted(error.allowed_methods))}
        response = _json({"error": f"{request.path[:200]} can only be read"}, status=405)
        response.headers.update(allowed)
        return response


def _json(content: Any, status: int = 200) -> web.Response:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return web.Response(
        body=_encoder.encode(content), status=status, content_type="application/json", charset="utf-8", headers=headers
    )


def _number(request: web.Request, name: str, default: float, kind: Callable[[str], float], most: float) -> float:
    """A number from the query, between 0 and ``most``. Raises HTTPBadRequest."""
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        error = {"error": f"{name} must be a number from 0 to {most:g}, not {text[:40]!r}"}
        raise web.HTTPBadRequest(text=_encoder.encode(error).decode(), content_type="application/json")
    return min(value, most)
