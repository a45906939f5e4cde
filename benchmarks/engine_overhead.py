"""What the plugin costs a running engine, the engine held against itself: its seams in, and taken out again.

    python benchmarks/engine_overhead.py --engine http://127.0.0.1:30000 --switch FOLDER [--what "0.5.23, recorder"]

Two servers differ by more than a plugin: where their memory lies, which cores they got. So one server is asked, and
between two halves of a round its processes put the engine's own functions back, or ours in again; which half comes
first changes every round (A B, B A, ...), so that drift hits both alike. For that the engine is started with
benchmarks/seam_switch on its PYTHONPATH and $SEAM_SWITCH=FOLDER. With --trace instead of --switch it is SGLang's own
tracing, level 1 against level 0, of a server started with --enable-trace. Each half asks, one request at a time,

- cold: time to first token of prompts never seen (computed)
- l1: of the same prompts again (device hit)
- l2: once more after other prompts pushed them out of L1 (host hit, load-back)

and then requests of --request tokens with --answer answer tokens, one and --concurrency at a time: requests a second,
and the median time to first token. With 256 and 16 the scheduler has little else to do than to admit and end requests:
what a request costs is seen best, and no service looks like that. The figure is the mean over rounds of log(in / out),
a tenth cut off at either end, as a change in per cent, with its 95 % bootstrap interval; "furthest edge" is the end of
that interval that lies further from zero. (Up to 196a31a it was the mean of in / out itself, which noise makes larger:
by some 2 % where rounds differ by 20 %.) What the method sees can be tried: $SEAM_SWITCH_PLANTED=500 loses half a
millisecond in every batch.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import form
import numpy as np
from scipy import stats

WARM_UP = 2  # rounds
KEPT = 3  # prompts a half that are asked for again
CUT = 0.1
Half = dict[str, float]
Switch = Callable[[bool], Awaitable[None]]


class Engine:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url.rstrip("/")
        self._session = session

    async def ask(self, ids: list[int], tokens: int = 1, *, cached: bool = False) -> float:
        """Seconds to the first token. ``cached``: whether most of it is to come from the cache; else nothing."""
        body = {
            "input_ids": ids,
            "stream": True,
            "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
        }
        began = time.perf_counter()
        first, told = 0.0, b"{}"
        async with self._session.post(f"{self._url}/generate", json=body) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    first = first or time.perf_counter() - began
                    told = line
        found = json.loads(told.removeprefix(b"data: ")).get("meta_info", {}).get("cached_tokens")
        if found is None or (found > len(ids) // 2) != cached:
            raise SystemExit(f"these figures mean nothing: of {len(ids)} tokens {found} were cached")
        return first

    async def trace(self, level: int) -> None:
        async with self._session.post(f"{self._url}/set_trace_level", params={"level": level}) as answer:
            answer.raise_for_status()


def seams(folder: Path) -> Switch:
    """Switches all processes of the engine, and waits until they say so."""
    pids = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    if not pids:
        raise SystemExit(f"nothing is registered in {folder}: start the engine with benchmarks/seam_switch and this")

    async def switch(on: bool) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGUSR1 if on else signal.SIGUSR2)
        deadline = time.monotonic() + 10
        while any((folder / str(pid)).read_text() != ("in" if on else "out") for pid in pids):
            if time.monotonic() > deadline:
                raise SystemExit("a process of the engine did not switch within 10 s")
            await asyncio.sleep(0.005)

    return switch


async def latencies(engine: Engine, draw: Callable[[int], list[int]], prompt: int, l1: int) -> Half:
    kept = [draw(prompt) for _ in range(KEPT)]
    cold = [await engine.ask(ids) for ids in kept]
    again = [await engine.ask(ids, cached=True) for ids in kept * 2]
    # as much again as L1 holds: the prompts have left it
    cold += [await engine.ask(draw(prompt)) for _ in range(-(-l1 // prompt))]
    found = {"cold": cold, "l1": again}
    if l1:
        found["l2"] = [await engine.ask(ids, cached=True) for ids in kept]
    return {f"{name}, TTFT": statistics.median(times) for name, times in found.items()}


async def load(engine: Engine, prompts: list[list[int]], answer: int, at_once: int) -> Half:
    gate = asyncio.Semaphore(at_once)

    async def one(ids: list[int]) -> float:
        async with gate:
            return await engine.ask(ids, answer)

    began = time.perf_counter()
    first = await asyncio.gather(*(one(ids) for ids in prompts))
    rate = len(prompts) / (time.perf_counter() - began)
    name = f"{at_once} at once ({len(prompts[0]):,} + {answer} tokens)"
    return {f"{name}, TTFT": statistics.median(first), f"{name}, requests a second": rate}


async def measure(given: argparse.Namespace) -> dict[str, list[tuple[float, float]]]:
    """Pairs (in, out) of each metric."""
    chance = random.Random()
    draw = lambda count: chance.choices(range(10, given.vocabulary), k=count)  # noqa: E731
    deadline = time.monotonic() + given.seconds
    pairs: dict[str, list[tuple[float, float]]] = {}
    limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=limits, timeout=aiohttp.ClientTimeout(300)) as session:
        engine = Engine(given.engine, session)
        switch = seams(given.switch) if given.switch else lambda on: engine.trace(int(on))
        for turn in range(-WARM_UP, given.rounds):
            halves: dict[bool, Half] = {}
            for on in (True, False) if turn % 2 else (False, True):
                await switch(on)
                halves[on] = await latencies(engine, draw, given.prompt, given.l1)
                for at_once, waves in ((1, 2), (given.concurrency, given.waves)):
                    prompts = [draw(given.request) for _ in range(at_once * waves)]
                    halves[on] |= await load(engine, prompts, given.answer, at_once)
            if turn >= 0:
                for name, value in halves[True].items():
                    pairs.setdefault(name, []).append((value, halves[False][name]))
            if time.monotonic() > deadline:
                break
        await switch(True)
    return pairs


def change(pairs: list[tuple[float, float]]) -> tuple[float, tuple[float, float]]:
    """In per cent: the trimmed mean of log(in / out), so that neither half is favoured, and its 95 % interval."""
    ratios = np.log([one / other for one, other in pairs])
    middle = lambda values, axis=-1: stats.trim_mean(values, CUT, axis=axis)  # noqa: E731
    found = stats.bootstrap((ratios,), middle, n_resamples=5000, method="percentile").confidence_interval
    said, low, high = (100 * math.expm1(value) for value in (middle(ratios), found.low, found.high))
    return said, (low, high)


def main() -> int:
    parser = form.options(__doc__)
    parser.add_argument("--engine", required=True, metavar="URL")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--switch", type=Path, metavar="FOLDER", help="the engine's $SEAM_SWITCH")
    how.add_argument("--trace", action="store_true", help="switch SGLang's own tracing instead")
    parser.add_argument("--what", default="recorder", help="what is switched, for the figures' names")
    parser.add_argument("--aim", type=float, metavar="PERCENT", help="the furthest edge is to stay below this")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--prompt", type=int, default=4096, help="tokens of a prompt")
    parser.add_argument("--l1", type=int, default=0, help="tokens of L1, to measure host hits; 0: do not")
    parser.add_argument("--vocabulary", type=int, default=150_000, help="tokens of the model to draw prompts from")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--waves", type=int, default=2, help="so many times --concurrency requests a half")
    parser.add_argument("--request", type=int, default=1024, help="tokens of each of them")
    parser.add_argument("--answer", type=int, default=128, help="and of its answer")
    parser.add_argument("--seconds", type=float, default=600, help="begin no further round after this time")
    parser.add_argument("--raw", type=Path, help="write every single pair to this file")
    parser.add_argument("--gpu", help="what the engine runs on")
    given = parser.parse_args()
    bench = form.Bench("engine_overhead", given.history, given.gpu)
    pairs = asyncio.run(measure(given))
    if not pairs or len(next(iter(pairs.values()))) < 2:
        raise SystemExit("too few rounds to say anything: take more --seconds or --rounds")
    if given.raw:
        given.raw.write_text(json.dumps(pairs))
    report(bench, given.what, pairs, given.aim)
    return bench.end()


def report(bench: form.Bench, what: str, pairs: dict[str, list[tuple[float, float]]], aim: float | None) -> None:
    for name, found in pairs.items():
        middle, (low, high) = change(found)
        without = statistics.median(out for _, out in found)
        unit = "a second" if name.endswith("second") else "s"
        note = f"{middle:+.3f} %; {without:.4g} {unit} without (median); {len(found)} rounds"
        edge = max(abs(low), abs(high))
        target = None if aim is None else form.at_most(aim)
        bench.add(f"{what}: {name}, furthest edge of the change", edge, "%", target, interval=(low, high), note=note)


if __name__ == "__main__":
    sys.exit(main())
