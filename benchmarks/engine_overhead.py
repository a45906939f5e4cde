"""What the plugin costs a running engine, the engine held against itself: its seams in, and taken out again.

    python benchmarks/engine_overhead.py --engine http://127.0.0.1:30000 --switch FOLDER [--what "0.5.23, recorder"]
    python benchmarks/engine_overhead.py --of RAW [RAW ...] [--what "0.5.23, recorder"]

Two servers differ by more than a plugin: where their memory lies, which cores they got. So one server is asked, and
between two blocks of requests its processes put the engine's own functions back, or ours in again. Blocks take seconds
and go in, out, out, in: a machine drifts slower than that, and what drift there is hits both alike. For that the engine
is started with benchmarks/seam_switch on its PYTHONPATH and $SEAM_SWITCH=FOLDER. With --trace instead of --switch it is
SGLang's own tracing, level 1 against level 0, of a server started with --enable-trace. A block is either of

- one at a time: --block prompts of --one tokens that were never seen, after one more that is not counted: Python
  specialises the engine's code anew after a switch. With --l1 each is asked again (L1 hit), and then one of so long ago
  that L1 has lost it and L2 has not (L2 hit)
- --at-once: a burst of new prompts of --many tokens, sent while the engine computes one more of --one, which is not
  counted: so all of them wait together, and the engine makes the same batches of them every time

Of a block count the mean time to first token, from when a request was sent, and the requests a second: of the burst, or
one over the mean time of a whole request. A mean, because a median hides what only some requests pay. Prompts are of a
size that HiCache is there for: the shorter they are, the larger the share of what a request costs by itself.

The figure is the mean over pairs of neighbouring blocks of log(in / out), a tenth of ten or more cut off at either end,
as a change in per cent, with its 95 % bootstrap interval; "furthest edge" is the end of that interval that lies further
from zero, and where there is an --aim, it is also said by how much the interval misses zero. --raw keeps the pairs and
how they were asked for; --of makes the figures of several runs together, on machines that are alike. Of prompts that
are new, content checking signs the rows that are backed up; what L2 gives back it compares. What the method sees can be
tried: $SEAM_SWITCH_PLANTED=500 loses half a millisecond in every batch.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import signal
import statistics
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import aiohttp
import asking
import form
import numpy as np
from scipy import stats

WARM_UP = 1  # pairs of each kind of block
SETTLE = 0.1  # seconds after a block: the backup of what it computed ends after the answer
AHEAD = 0.02  # seconds by which the engine gets something to compute before a burst
CUT = 0.1
Figures = dict[str, float]
Pairs = dict[str, list[tuple[float, float]]]
"""(in, out) of each figure."""
Switch = Callable[[bool], Awaitable[None]]
Draw = Callable[[int], list[int]]


class Size(NamedTuple):
    """Tokens of one request."""

    prompt: int
    answer: int


class Took(NamedTuple):
    """Seconds of one request."""

    first: float
    whole: float


class Engine:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url.rstrip("/")
        self._session = session
        self.computed = 0
        """Tokens of prompts so far that were not in the cache."""

    async def ask(self, ids: list[int], tokens: int = 1, cached: Literal["device", "host"] | None = None) -> Took:
        """``cached``: where most of it is to be found; None: nowhere. Raises SystemExit where it is not so."""
        body = json.dumps(asking.request(ids, tokens, stream=True)).encode()
        kind = {"Content-Type": "application/json"}
        began = time.perf_counter()
        first, told = 0.0, b"{}"
        async with self._session.post(f"{self._url}/generate", data=body, headers=kind) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    first = first or time.perf_counter() - began
                    told = line
        took = Took(first, time.perf_counter() - began)
        meta = json.loads(told.removeprefix(b"data: ")).get("meta_info", {})
        found = meta.get("cached_tokens", -1)
        there = (meta.get("cached_tokens_details") or {}).get(cached, found)  # null: not told apart
        if found < 0 or (there > len(ids) // 2) != (cached is not None):
            raise SystemExit(f"these figures mean nothing: of {len(ids)} tokens {found} were cached, not {cached or 0}")
        self.computed += len(ids) - found
        return took

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


class Block(Protocol):
    """Requests that are asked with the seams in (``on``) or out, and what they took."""

    async def __call__(self, on: bool) -> Figures: ...


class OneAtATime:
    def __init__(self, engine: Engine, draw: Draw, size: Size, count: int, l1: int) -> None:
        self._engine, self._draw, self._size = engine, draw, size
        self._count, self._l1 = count, l1
        self._past: dict[bool, deque[tuple[int, list[int]]]] = {True: deque(), False: deque()}
        """What was stored with the seams in, and with them out, is loaded so: oldest first, with when it was asked."""

    async def __call__(self, on: bool) -> Figures:
        await self._ask(self._draw(self._size.prompt))
        took: dict[str, list[Took]] = {}
        for _ in range(self._count):
            ids = self._draw(self._size.prompt)
            took.setdefault("cold", []).append(await self._ask(ids))
            if not self._l1:
                continue
            took.setdefault("L1 hit", []).append(await self._ask(ids, "device"))
            past = self._past[on]
            past.append((self._engine.computed, ids))
            if self._engine.computed - past[0][0] > self._l1:
                took.setdefault("L2 hit", []).append(await self._ask(past.popleft()[1], "host"))
        found: Figures = {}
        for kind, times in took.items():
            whole = statistics.fmean(one.whole for one in times)
            found |= figures(f"1 at once, {kind}", self._size, times, 1 / whole)
        return found

    async def _ask(self, ids: list[int], cached: Literal["device", "host"] | None = None) -> Took:
        return await self._engine.ask(ids, self._size.answer, cached)


class Burst:
    def __init__(self, engine: Engine, draw: Draw, size: Size, count: int, ahead: int) -> None:
        self._engine, self._draw, self._size = engine, draw, size
        self._count, self._ahead = count, ahead

    async def __call__(self, on: bool) -> Figures:
        prompts = [self._draw(self._size.prompt) for _ in range(self._count)]
        before = asyncio.create_task(self._engine.ask(self._draw(self._ahead)))
        await asyncio.sleep(AHEAD)
        began = time.perf_counter()
        times = await asyncio.gather(*(self._engine.ask(ids, self._size.answer) for ids in prompts))
        rate = self._count / (time.perf_counter() - began)
        await before
        return figures(f"{self._count} at once, cold", self._size, times, rate)


def figures(kind: str, size: Size, times: list[Took], rate: float) -> Figures:
    """By name, which every run with such requests gives them: only so can runs be pooled."""
    name = f"{kind} ({size.prompt:,} + {size.answer} tokens)"
    return {f"{name}, TTFT": statistics.fmean(one.first for one in times), f"{name}, requests a second": rate}


async def measure(given: argparse.Namespace) -> Pairs:
    draw: Draw = partial(asking.new_prompt, given.vocabulary)
    limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=limits, timeout=aiohttp.ClientTimeout(300)) as session:
        engine = Engine(given.engine, session)
        switch = seams(given.switch) if given.switch else lambda on: engine.trace(int(on))
        blocks: dict[str, Block] = {
            "one": OneAtATime(engine, draw, Size(*given.one), given.block, given.l1),
            "many": Burst(engine, draw, Size(*given.many), given.at_once, given.one[0]),
        }
        try:
            return await take_turns([blocks[name] for name in given.parts], switch, given.seconds)
        finally:
            await switch(True)


async def take_turns(blocks: list[Block], switch: Switch, seconds: float) -> Pairs:
    """Pairs of blocks, first the one half, then the other; the kind of block is next that has had the least time."""
    pairs: Pairs = {}
    spent, turns = [0.0] * len(blocks), [-WARM_UP] * len(blocks)
    state: bool | None = None
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        kind = spent.index(min(spent))
        at = time.monotonic()
        halves: dict[bool, Figures] = {}
        for on in (True, False) if turns[kind] % 2 else (False, True):
            if on is not state:
                await switch(on)
                state = on
            halves[on] = await blocks[kind](on)
            await asyncio.sleep(SETTLE)
        if turns[kind] >= 0:
            for name in halves[True].keys() & halves[False].keys():
                pairs.setdefault(name, []).append((halves[True][name], halves[False][name]))
        turns[kind] += 1
        spent[kind] += time.monotonic() - at
    return pairs


def change(pairs: list[tuple[float, float]]) -> tuple[float, tuple[float, float]]:
    """In per cent: the trimmed mean of log(in / out), so that neither half is favoured, and its 95 % interval."""
    ratios = np.log([one / other for one, other in pairs])
    middle = lambda values, axis=-1: stats.trim_mean(values, CUT, axis=axis)  # noqa: E731
    found = stats.bootstrap((ratios,), middle, n_resamples=5000, method="percentile", rng=0).confidence_interval
    said, low, high = (100 * math.expm1(value) for value in (middle(ratios), found.low, found.high))
    return said, (low, high)


def pooled(files: list[Path]) -> Pairs:
    pairs: Pairs = {}
    for file in files:
        for name, found in json.loads(file.read_text())["pairs"].items():
            pairs.setdefault(name, []).extend((one, other) for one, other in found)
    return pairs


def main() -> int:
    parser = form.options(__doc__)
    parser.add_argument("--engine", metavar="URL")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--switch", type=Path, metavar="FOLDER", help="the engine's $SEAM_SWITCH")
    how.add_argument("--trace", action="store_true", help="switch SGLang's own tracing instead")
    how.add_argument("--of", type=Path, nargs="+", metavar="RAW", help="ask no engine: the pairs that --raw has kept")
    parser.add_argument("--what", default="recorder", help="what is switched, for the figures' names")
    parser.add_argument("--aim", type=float, metavar="PERCENT", help="the furthest edge is to stay below this")
    parser.add_argument("--parts", nargs="+", choices=("one", "many"), default=("one", "many"))
    size = ("PROMPT", "ANSWER")
    parser.add_argument("--one", type=int, nargs=2, metavar=size, default=(8192, 64), help="tokens, one at a time")
    parser.add_argument("--block", type=int, default=4, help="so many of them count in a block")
    parser.add_argument(
        "--l1", type=int, default=0, help="tokens of L1, to measure hits; L2 has to hold four times that"
    )
    parser.add_argument("--many", type=int, nargs=2, metavar=size, default=(2048, 32), help="tokens, of a burst")
    parser.add_argument("--at-once", type=int, default=64, help="requests of a burst")
    parser.add_argument("--vocabulary", type=int, default=asking.VOCABULARY, help="tokens of the model to draw from")
    parser.add_argument("--seconds", type=float, default=300, help="begin no further pair after this time")
    parser.add_argument("--raw", type=Path, help="write every single pair to this file")
    parser.add_argument("--gpu", help="what the engine runs on")
    given = parser.parse_args()
    if bool(given.engine) == bool(given.of):
        parser.error("either --engine with --switch or --trace, or --of")
    if given.l1 and "many" in given.parts:
        parser.error("--l1 goes with --parts one: a burst pushes out of L2 what is to be hit")
    bench = form.Bench("engine_overhead", given.history, given.gpu, now=not given.of)
    pairs = pooled(given.of) if given.of else asyncio.run(measure(given))
    if given.raw:
        given.raw.write_text(json.dumps({"asked": form.command(), "pairs": pairs}))
    report(bench, given.what, pairs, given.aim)
    return bench.end()


def report(bench: form.Bench, what: str, pairs: Pairs, aim: float | None) -> None:
    """Hits have no target: they say where a cost lies. Raises SystemExit where there is too little to say anything."""
    told = {name: found for name, found in sorted(pairs.items()) if len(found) > 1}
    if not told:
        raise SystemExit("too few pairs to say anything: take more --seconds")
    for name, found in told.items():
        middle, (low, high) = change(found)
        without = statistics.median(out for _, out in found)
        unit = "a second" if name.endswith("second") else "s"
        note = f"{middle:+.3f} %; {without:.4g} {unit} without (median); {len(found)} pairs"
        target = None if aim is None or " hit " in name else form.at_most(aim)
        edge, miss = max(abs(low), abs(high)), max(low, -high, 0.0)
        bench.add(f"{what}: {name}, furthest edge of the change", edge, "%", target, interval=(low, high), note=note)
        if target:
            bench.add(f"{what}: {name}, its interval misses zero by", miss, "%", form.at_most(0))


if __name__ == "__main__":
    sys.exit(main())
