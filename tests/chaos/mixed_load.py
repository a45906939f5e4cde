"""What users, Prometheus and operators do all day, at a gentle pace: asks the engine, reads /metrics and /proofs.

Prefixes that come back, conversations that grow, prompts never seen, streams, clients that hang up, requests that are
called off, a cache that is flushed. Counts what happened.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import aiohttp

TOKENS = 300
"""Of a prefix; six of them are more than L1 holds and less than L2 holds."""
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


class MixedLoad:
    """``await run()`` until cancelled. ``pause``: mean seconds between the requests of one of the two users."""

    def __init__(self, engine: str, sidecar: str, session: aiohttp.ClientSession, seed: int, pause: float) -> None:
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.scrapes: list[float] = []
        """Seconds that /metrics took, since somebody last emptied the list."""
        self._engine, self._sidecar, self._session, self._pause = engine, sidecar, session, pause
        self._chance = random.Random(seed)
        self._prefixes = [self._draw(TOKENS) for _ in range(6)]
        self._latest = ""
        self._number = 0

    async def run(self) -> None:
        mean = self._pause
        await asyncio.gather(
            self._for_ever("ask", self._ask, mean),
            self._for_ever("ask", self._ask, mean),
            self._for_ever("metrics", self._read_metrics, 5),
            self._for_ever("proofs", self._read_proofs, 5),
            self._for_ever("proof", self._read_one_proof, 4),
            self._for_ever("flush", self._flush, 600),
        )

    async def _for_ever(self, name: str, step: Callable[[], Awaitable[None]], pause: float) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / pause))
            try:
                await step()
            except (aiohttp.ClientError, TimeoutError) as error:
                self.errors[f"{name}: {type(error).__name__}"] += 1

    # -- users -------------------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        kind = self._chance.choices(("repeat", "grow", "new", "hang_up", "abort"), (60, 15, 15, 5, 5))[0]
        self._number += 1
        request_id = f"soak-{self._number}"
        leaves = kind in ("hang_up", "abort")
        body = {
            "rid": request_id,
            "input_ids": self._prompt(kind),
            "stream": leaves or self._chance.random() < 0.5,
            "sampling_params": {"temperature": 0, "max_new_tokens": 100 if leaves else 4, "ignore_eos": True},
        }
        async with self._session.post(f"{self._engine}/generate", json=body) as reply:
            if reply.status != 200:
                self.errors[f"ask: {reply.status}"] += 1
                return
            async for line in reply.content:
                if leaves and line.startswith(b"data:"):
                    if kind == "abort":
                        await self._session.post(f"{self._engine}/abort_request", json={"rid": request_id})
                    break
        self.counts[kind] += 1
        self.counts["streamed"] += bool(body["stream"])
        if not leaves:
            self._latest = request_id

    def _prompt(self, kind: str) -> list[int]:
        if kind == "new":
            return self._draw(TOKENS)
        prefix = self._chance.choice(self._prefixes)
        return prefix + self._draw(80) if kind == "grow" else prefix

    def _draw(self, tokens: int) -> list[int]:
        return self._chance.choices(range(3, 500), k=tokens)

    async def _flush(self) -> None:
        """The engine declines while it has work; that is no error."""
        async with self._session.post(f"{self._engine}/flush_cache") as reply:
            self.counts["flushed" if reply.status == 200 else "flush declined"] += 1

    # -- readers -----------------------------------------------------------------------------------------------

    async def _read_metrics(self) -> None:
        began = time.perf_counter()
        headers = OPENMETRICS if self._chance.random() < 0.5 else {}
        async with self._session.get(f"{self._sidecar}/metrics", headers=headers) as reply:
            await reply.read()
            self._count("metrics", reply.status)
        self.scrapes.append(time.perf_counter() - began)

    async def _read_proofs(self) -> None:
        async with self._session.get(f"{self._sidecar}/proofs?limit=50") as reply:
            await reply.read()
            self._count("proofs", reply.status)

    async def _read_one_proof(self) -> None:
        if not self._latest:
            return
        async with self._session.get(f"{self._sidecar}/proofs/{self._latest}?wait=10") as reply:
            await reply.read()
            self._count("proof", reply.status)

    def _count(self, what: str, status: int) -> None:
        if status == 200:
            self.counts[f"{what} read"] += 1
        else:
            self.errors[f"{what}: {status}"] += 1
