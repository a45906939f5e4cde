"""Debian's chromium without a window, told what to do over its DevTools socket."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0")


class Tab:
    """One page. ``complaints``: what its console and its scripts said; ``asked``: every address that it loaded."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.complaints: list[str] = []
        self.asked: set[str] = set()
        self._socket, self._numbers = socket, itertools.count(1)
        self._session: str | None = None

    async def open(self) -> None:
        target = await self.tell("Target.createTarget", url="about:blank")
        attached = await self.tell("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.tell(f"{domain}.enable")

    async def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(message if self._session is None else {**message, "sessionId": self._session})
        while (heard := await self._socket.receive_json(timeout=30)).get("id") != number:
            self._note(heard.get("method"), heard.get("params", {}))
        assert "error" not in heard, heard
        result: dict[str, Any] = heard["result"]
        return result

    def _note(self, event: str | None, told: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.asked.add(told["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif event == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{told['entry']['text']} ({told['entry'].get('url')})")

    async def value(self, expression: str) -> Any:
        """Of a JavaScript expression."""
        told = await self.tell("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, expression: str, seconds: float = 15) -> None:
        async with asyncio.timeout(seconds):
            while not await self.value(expression):
                await asyncio.sleep(0.05)

    async def screen(self, width: int, height: int, *, dark: bool) -> None:
        await self.tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.tell("Emulation.setEmulatedMedia", features=[scheme])


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Tab]:
    process = await asyncio.create_subprocess_exec(
        "chromium", *OPTIONS, f"--user-data-dir={folder}", stderr=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        async with asyncio.timeout(30):
            while not (found := re.search(rb"ws://\S+", await process.stderr.readline())):
                pass
        async with aiohttp.ClientSession() as session, session.ws_connect(found[0].decode(), max_msg_size=0) as socket:
            tab = Tab(socket)
            await tab.open()
            yield tab
            await socket.send_json({"id": 0, "method": "Browser.close"})
        async with asyncio.timeout(10):
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
