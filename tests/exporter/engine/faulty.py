"""An engine that answers as it is told to: well, late, wrong, or not at all."""

from __future__ import annotations

import asyncio
import gzip
from contextlib import asynccontextmanager

from aiohttp import web

from .samples import LATEST, info_body, metrics_of

HUGE = 17 * 1024 * 1024


class FaultyEngine:
    """``mode`` names the fault; it may change while the engine runs. Counts what it is asked."""

    def __init__(self, mode: str = "good", name: str = LATEST) -> None:
        self.mode = mode
        self.info_mode = "good"
        self.info_changes: dict[str, object] = {}
        self.text = metrics_of(name)
        self.name = name
        self.token: str | None = None
        self.asked = {"/metrics": 0, "/server_info": 0, "/get_server_info": 0}
        self.headers_seen: list[dict[str, str]] = []
        self.address = ""
        self._runner: web.AppRunner | None = None

    @asynccontextmanager
    async def running(self, port: int = 0):
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.address = f"127.0.0.1:{self._runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.path] = self.asked.get(request.path, 0) + 1
        self.headers_seen.append(dict(request.headers))
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.Response(status=401, text="no")
        if request.path == "/metrics":
            return await getattr(self, "_" + self.mode)(request)
        if request.path == "/server_info":
            return await getattr(self, "_info_" + self.info_mode)(request)
        if request.path == "/get_server_info" and self.info_mode == "old":
            return await self._info_good(request)
        return web.Response(status=404, text='{"detail":"Not Found"}')

    # -- /metrics
    async def _good(self, request):
        return web.Response(body=self.text.encode(), content_type="text/plain")

    async def _slow(self, request):
        await asyncio.sleep(30)
        return await self._good(request)

    async def _late(self, request):
        await asyncio.sleep(0.8)
        return await self._good(request)

    async def _stalls(self, request):
        """Headers at once, then a part of the body, then silence."""
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(self.text.encode()[:1000])
        await asyncio.sleep(30)
        return answer

    async def _gzipped(self, request):
        body = gzip.compress(self.text.encode())
        return web.Response(body=body, content_type="text/plain", headers={"Content-Encoding": "gzip"})

    async def _false_gzip(self, request):
        return web.Response(body=self.text.encode(), headers={"Content-Encoding": "gzip"})

    async def _gzip_bomb(self, request):
        return web.Response(body=gzip.compress(b"\n" * HUGE), headers={"Content-Encoding": "gzip"})

    async def _chunked(self, request):
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        for start in range(0, len(self.text), 7000):
            await answer.write(self.text[start : start + 7000].encode())
        await answer.write_eof()
        return answer

    async def _cut(self, request):
        """Fewer bytes than promised."""
        body = self.text.encode()
        answer = web.StreamResponse(headers={"Content-Length": str(len(body))})
        await answer.prepare(request)
        await answer.write(body[:-5000])
        request.transport.close()
        return answer

    async def _cut_chunks(self, request):
        answer = web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        await answer.write(self.text.encode()[:-5000])
        request.transport.close()
        return answer

    async def _cut_line(self, request):
        """All bytes that were promised, but the last line has no end: a proxy cut it."""
        return web.Response(body=self.text.encode()[:-20])

    async def _drops(self, request):
        request.transport.close()
        return web.Response()

    async def _redirects(self, request):
        raise web.HTTPFound("/login")

    async def _redirects_to_itself(self, request):
        raise web.HTTPTemporaryRedirect("/metrics/")

    async def _empty(self, request):
        return web.Response(body=b"")

    async def _blank(self, request):
        return web.Response(body=b"\n\n")

    async def _login_page(self, request):
        return web.Response(text="<html>\n<body>Please log in</body>\n</html>\n", content_type="text/html")

    async def _other_program(self, request):
        return web.Response(text="# TYPE node_load1 gauge\nnode_load1 0.5\n")

    async def _json(self, request):
        return web.Response(text='{"sglang:num_running_reqs": 1}\n', content_type="application/json")

    async def _mistyped(self, request):
        """The numbers are right; what is said of them is not."""
        text = self.text.replace(" counter\n", " gauge\n").replace(" histogram\n", " untyped\n")
        return web.Response(body=text.encode(), content_type="application/json")

    async def _huge(self, request):
        return web.Response(body=b'sglang:x{a="b"} 1\n' * (HUGE // 18))

    async def _latin1(self, request):
        return web.Response(body='sglang:num_running_reqs{model_name="é"} 1\n'.encode("latin-1"))

    async def _utf16(self, request):
        return web.Response(body=self.text.encode("utf-16"))

    async def _not_found(self, request):
        return web.Response(status=404, text='{"detail":"Not Found"}')

    async def _busy(self, request):
        return web.Response(status=503)

    async def _teapot(self, request):
        return web.Response(status=418)

    async def _no_content(self, request):
        return web.Response(status=204)

    # -- /server_info
    async def _info_good(self, request):
        return web.Response(body=info_body(self.name, **self.info_changes), content_type="application/json")

    async def _info_slow(self, request):
        await asyncio.sleep(30)
        return web.Response()

    async def _info_old(self, request):
        return web.Response(status=404)

    async def _info_nonsense(self, request):
        return web.Response(text='{"version": {"api_key": "planted-api-key"}}')

    async def _info_denied(self, request):
        return web.Response(status=401)
