"""What the plugin costs a running engine: servers that differ in nothing else, asked in turn, compared pair by pair.

    python benchmarks/engine_overhead.py --server off=http://127.0.0.1:30000 --server on=http://127.0.0.1:30001 ...

The first server is the one that the others are held against. All are up at once; only one is asked at a time, in an
order that turns round every round (A B, B A, ...), so that drift of the machine hits all alike. Per round and server:

- cold: time to first token of a prompt never seen (computed)
- l1: of the same prompt again (device hit)
- l2: once more after other prompts pushed it out of L1 (host hit, load-back); needs HiCache and a small L1
- load: requests a second with --concurrency requests at once

The figure of a server is the median over rounds of (its value / the first server's value - 1), with the 95% bootstrap
interval; "furthest edge" is the end of that interval that lies further from zero.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import form
import numpy as np
from scipy import stats

VOCABULARY = range(10, 150_000)


class Server:
    def __init__(self, name: str, url: str, session: aiohttp.ClientSession) -> None:
        self.name = name
        self._url = url.rstrip("/")
        self._session = session

    async def ask(self, ids: list[int], tokens: int = 1) -> float:
        """Seconds to the first token."""
        body = {
            "input_ids": ids,
            "stream": True,
            "sampling_params": {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True},
        }
        began = time.perf_counter()
        first = 0.0
        async with self._session.post(f"{self._url}/generate", json=body) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                if line.startswith(b"data:") and not first:
                    first = time.perf_counter() - began
        return first


async def latencies(server: Server, draw: Callable[[int], list[int]], prompt: int, l1: int) -> dict[str, float]:
    ids = draw(prompt)
    found = {"cold": await server.ask(ids), "l1": await server.ask(ids)}
    if l1:
        filler = 0
        while filler < l1:  # as much again as L1 holds: the prompt has left it
            await server.ask(draw(prompt))
            filler += prompt
        found["l2"] = await server.ask(ids)
    return found


async def load(server: Server, draw: Callable[[int], list[int]], concurrency: int) -> float:
    """Requests a second."""
    prompts = [draw(256) for _ in range(2 * concurrency)]
    gate = asyncio.Semaphore(concurrency)

    async def one(ids: list[int]) -> None:
        async with gate:
            await server.ask(ids, tokens=16)

    began = time.perf_counter()
    await asyncio.gather(*(one(ids) for ids in prompts))
    return len(prompts) / (time.perf_counter() - began)


async def measure(arguments: argparse.Namespace) -> dict[str, dict[str, list[float]]]:
    random_ids = random.Random()
    draw = lambda count: random_ids.choices(VOCABULARY, k=count)  # noqa: E731
    deadline = time.monotonic() + arguments.seconds
    limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=limits, timeout=aiohttp.ClientTimeout(300)) as session:
        servers = [Server(*given.split("=", 1), session) for given in arguments.server]
        values: dict[str, dict[str, list[float]]] = {server.name: {} for server in servers}
        for round_number in range(-2, arguments.rounds):  # two rounds of warm-up
            order = servers if round_number % 2 else servers[::-1]
            for server in order:
                found = await latencies(server, draw, arguments.prompt, arguments.l1)
                if round_number < arguments.load_rounds:
                    found["load"] = await load(server, draw, arguments.concurrency)
                if round_number >= 0:
                    for name, value in found.items():
                        values[server.name].setdefault(name, []).append(value)
            print(f"round {round_number + 1}/{arguments.rounds}", file=sys.stderr, flush=True)
            if time.monotonic() > deadline:
                break
    return values


def compare(values: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, Any]]:
    base = next(iter(values))
    figures: dict[str, dict[str, Any]] = {}
    for metric, reference in values[base].items():
        row: dict[str, Any] = {base: {"median": float(np.median(reference)), "rounds": len(reference)}}
        for name, found in values.items():
            if name == base:
                continue
            change = 100 * (np.array(found[metric]) / np.array(reference) - 1)
            interval = stats.bootstrap((change,), np.median, n_resamples=5000).confidence_interval
            row[name] = {
                "median": float(np.median(found[metric])),
                "change_percent": round(float(np.median(change)), 3),
                "interval_percent": [round(float(interval.low), 3), round(float(interval.high), 3)],
            }
        figures[metric] = row
    return figures


def main() -> int:
    parser = form.options(__doc__)
    parser.add_argument("--server", action="append", required=True, metavar="NAME=URL")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--load-rounds", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=4096, help="tokens of a prompt")
    parser.add_argument("--l1", type=int, default=0, help="tokens of L1, to measure host hits; 0: do not")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3600, help="begin no further round after this time")
    parser.add_argument("--raw", help="write every single value to this file")
    parser.add_argument("--gpu", help="what the servers run on")
    arguments = parser.parse_args()
    bench = form.Bench("engine_overhead", arguments.history, arguments.gpu)
    values = asyncio.run(measure(arguments))
    if arguments.raw:
        with open(arguments.raw, "w") as file:
            json.dump(values, file)
    figures = compare(values)
    print(json.dumps(figures, indent=1))
    for metric, row in figures.items():
        for name, found in list(row.items())[1:]:  # the first is the server that the others are held against
            low, high = found["interval_percent"]
            figure = f"{metric}: {name} against {next(iter(row))}, furthest edge of the interval"
            bench.add(figure, max(abs(low), abs(high)), "%", form.at_most(0.5), interval=(low, high))
    return bench.end()


if __name__ == "__main__":
    sys.exit(main())
