"""How often a request passes a seam on the real engine, and what all of that adds to it. Needs ``make engine``.

    python benchmarks/engine_calls.py [--rounds 25] [--release 0.5.16]
    python benchmarks/engine_calls.py --engine http://127.0.0.1:30000 --meter FOLDER --l1 16384 [--what "0.5.23, TP 2"]
        [--at-once 64 --prompt 1024 --answer 64]

SGLang (0.5.23 if no other is named) on CPU with a tiny model, content checking off, one request of 300 tokens and 8
answer tokens at a time, then eight of 80 at once; or an engine that runs elsewhere, with a GPU, started with
benchmarks/seam_meter and the plugin on its PYTHONPATH and $SEAM_METER=FOLDER. A meter stands around every seam of the
scheduler's process and takes the time of the whole call without the engine's own function in it; of several ranks the
mean is taken, and what the loop of an idle engine passes is taken off. Prompts are asked cold, again (L1), and once
more after others have pushed them out of L1 (L2); in every second round with the meter alone, the seams left out, so
that its own share is known there and then. What is added to a request is the median difference of such a pair of
rounds, with a 95 % bootstrap interval. When the seams come in or go, a round passes that does not count: as in an
engine that runs on, what is evicted afterwards they have seen come. Of a burst, each request has its share: what is
passed once a batch, or once a turn of the engine's loop, the whole batch passes together.

Most of it is no work but waiting for memory: a forward pass, or the engine's sleep, has pushed a seam's code and data
out of the processor's caches when it is called. In a loop the same calls take less:
see ``seam_cost.py``.
"""

from __future__ import annotations

import statistics
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import asking
import form
import httpx
import numpy as np
from scipy import stats

from hicache_proof.demo.engine import Engine, EngineSpec

METER = Path(__file__).parent / "seam_meter"
CELL = struct.Struct("<64sQq")  # as the meter writes it: seam, calls, nanoseconds
SWITCH = 255 * CELL.size + 64
PROMPT, ANSWER, SETTLE = 300, 8, 0.05
AT_ONCE, PROMPT_AT_ONCE = 8, 80  # together they fit into the demo engine's L1
KINDS = ("cold", "L1 hit", "L2 hit")
IDLE = ("on_idle", "self_check_during_idle")


class Passed(NamedTuple):
    """What one request passed on its way."""

    calls: dict[str, float]
    us: dict[str, float]
    """By seam."""

    @property
    def total_us(self) -> float:
        return sum(self.us.values())

    def without(self, idle: Passed) -> Passed:
        """Less what an idle engine's loop passes by itself, as often as the engine was idle meanwhile."""
        turns, of_these = self.turns(), idle.turns()
        share = turns / of_these if of_these else 0.0
        return Passed(
            {name: max(0, round(count - share * idle.calls[name])) for name, count in self.calls.items()},
            {name: took - share * idle.us[name] for name, took in self.us.items()},
        )

    def each(self, requests: int) -> Passed:
        """The share of one of so many requests."""
        return Passed(
            {name: count / requests for name, count in self.calls.items()},
            {name: took / requests for name, took in self.us.items()},
        )

    def turns(self) -> float:
        """Turns of the engine's loop that found nothing to do."""
        return sum(count for name, count in self.calls.items() if name.endswith(IDLE))


class Meter:
    """What the engine's processes passed since the last look, and whether the seams are left out."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._calls: Counter[str] = Counter()
        self._ns: Counter[str] = Counter()
        self._of_each: dict[Path, int] = {}

    def leave_out(self, seams: bool) -> None:
        for path in self._folder.glob("*.cells"):
            with path.open("r+b") as file:
                file.seek(SWITCH)
                file.write(int(seams).to_bytes(8, "little"))

    def look(self) -> Passed:
        """On each rank: the mean over the processes that have passed a seam since; an earlier engine's have not."""
        calls: Counter[str] = Counter()
        ns: Counter[str] = Counter()
        of_each: dict[Path, int] = {}
        for path in self._folder.glob("*.cells"):
            cells = list(CELL.iter_unpack(path.read_bytes()[: 255 * CELL.size]))
            of_each[path] = sum(count for _, count, _ in cells)
            for raw, count, took in cells:
                name = raw.rstrip(b"\0").decode()
                calls[name] += count
                ns[name] += took
        ranks = max(1, sum(count != self._of_each.get(path, 0) for path, count in of_each.items()))
        passed = Passed(
            {name: (calls[name] - self._calls[name]) // ranks for name in calls},
            {name: (ns[name] - self._ns[name]) / 1e3 / ranks for name in ns},
        )
        self._calls, self._ns, self._of_each = calls, ns, of_each
        return passed


class Asked(NamedTuple):
    url: str
    l1: int
    """Tokens that fit into the engine's L1."""
    vocabulary: int
    at_once: int = 1
    prompt: int = PROMPT
    answer: int = ANSWER


class Client:
    """Asks an engine for bursts of requests."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._http = httpx.Client(base_url=asked.url, timeout=300, trust_env=False, limits=httpx.Limits())
        self._threads = ThreadPoolExecutor(asked.at_once)

    def draw(self) -> list[list[int]]:
        """New prompts, as many as are asked at once."""
        return [asking.new_prompt(self.asked.vocabulary, self.asked.prompt) for _ in range(self.asked.at_once)]

    def ask(self, prompts: list[list[int]]) -> list[int]:
        """Cached tokens of each."""
        found = list(self._threads.map(lambda ids: asking.ask(self._http, ids, self.asked.answer), prompts))
        time.sleep(SETTLE)  # the backup of what it computed ends after the answer
        return found


def one_round(client: Client, meter: Meter) -> Iterator[Passed]:
    """The same prompts in each of KINDS."""
    asked, prompts = client.asked, client.draw()
    for kind in KINDS:
        if kind == "L2 hit":
            for _ in range(asked.l1 // (asked.prompt * asked.at_once) + 1):
                client.ask(client.draw())
        meter.look()
        for cached in client.ask(prompts):
            if (cached > asked.prompt // 2) != (kind != "cold"):
                raise SystemExit(f"these figures mean nothing: a request meant as {kind} had {cached} cached tokens")
        passed = meter.look()
        time.sleep(SETTLE)
        yield passed.without(meter.look()).each(asked.at_once)


def measure(asked: Asked, meter: Meter, rounds: int) -> dict[str, list[tuple[Passed, Passed]]]:
    """Pairs: with the seams, and with the meter alone. Raises SystemExit where nothing came from L2."""
    client = Client(asked)
    pairs = []
    state: bool | None = None
    for turn in range(-2, rounds):  # the first warm the process up
        both = {}
        for seams in (True, False) if turn % 2 else (False, True):
            if seams is not state:
                meter.leave_out(not seams)
                state = seams
                list(one_round(client, meter))  # fills L1: what is evicted from now on, the seams have seen come
            both[seams] = list(one_round(client, meter))
        if turn >= 0:
            pairs.append(list(zip(both[True], both[False], strict=True)))
    found = dict(zip(KINDS, map(list, zip(*pairs, strict=True)), strict=True))
    if not any(name.endswith("init_load_back") for passed, _ in found["L2 hit"] for name in passed.calls):
        raise SystemExit("these figures mean nothing: no request was loaded back from L2")
    load = "" if asked.at_once == 1 else f"{asked.at_once} at once, "
    return {f"{load}{kind}": pairs for kind, pairs in found.items()}


def show(kind: str, pairs: list[tuple[Passed, Passed]]) -> None:
    print(f"{kind + ', by seam':44} {'calls':>6} {'µs added':>9} {'µs of the meter':>16}")
    for name in sorted(pairs[0][0].us):
        calls = statistics.median(passed.calls[name] for passed, _ in pairs)
        added = statistics.median(passed.us[name] - alone.us[name] for passed, alone in pairs)
        meter = statistics.median(alone.us[name] for _, alone in pairs)
        if calls:
            print(f"  {name:42} {calls:6.3g} {added:9.1f} {meter:16.1f}")


def demo(release: str, rounds: int) -> dict[str, list[tuple[Passed, Passed]]]:
    """Measured on the demo's engine, started for it."""
    with tempfile.TemporaryDirectory() as folder:
        spec = EngineSpec(release, content="off", paths=(METER,), variables={"SEAM_METER": folder})
        with Engine(spec, Path(folder) / "engine") as engine:
            meter, alone = Meter(Path(folder)), Asked(engine.url, spec.max_total_tokens, 500)
            loaded = alone._replace(at_once=AT_ONCE, prompt=PROMPT_AT_ONCE)
            return measure(alone, meter, rounds) | measure(loaded, meter, rounds // 2)


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--rounds", type=int, default=16)
    options.add_argument("--release", default=EngineSpec().version, help="of SGLang; one that has been set up")
    options.add_argument("--engine", metavar="URL", help="an engine that runs already")
    options.add_argument("--meter", type=Path, metavar="FOLDER", help="that engine's $SEAM_METER")
    options.add_argument("--l1", type=int, default=16_384, help="tokens that fit into that engine's L1")
    options.add_argument("--at-once", type=int, default=1, help="requests to that engine at a time")
    options.add_argument("--prompt", type=int, default=PROMPT, help="tokens of each")
    options.add_argument("--answer", type=int, default=ANSWER, help="and of its answer")
    options.add_argument("--vocabulary", type=int, default=asking.VOCABULARY, help="tokens of its model to draw from")
    options.add_argument("--gpu", help="what that engine runs on")
    options.add_argument("--what", help="that engine, for the figures' names")
    given = options.parse_args()
    if bool(given.engine) != bool(given.meter):
        options.error("--engine and --meter belong together")
    bench = form.Bench("engine_calls", given.history, given.gpu)
    if given.engine:
        asked = Asked(given.engine, given.l1, given.vocabulary, given.at_once, given.prompt, given.answer)
        found = measure(asked, Meter(given.meter), given.rounds)
    else:
        found = demo(given.release, given.rounds)
    for kind, pairs in found.items():
        show(kind, pairs)
        report(bench, f"{given.what}: {kind}" if given.what else kind, pairs)
    return bench.end()


def report(bench: form.Bench, kind: str, pairs: list[tuple[Passed, Passed]]) -> None:
    together: Counter[str] = Counter()
    for passed, _ in pairs:
        together.update(passed.calls)
    most = ", ".join(f"{name} {count / len(pairs):.3g}" for name, count in together.most_common(5))
    calls = statistics.median(sum(passed.calls.values()) for passed, _ in pairs)
    bench.add(f"{kind}: seam calls a request", calls, "calls", note=f"most often, a request: {most}")
    added = [with_seams.total_us - alone.total_us for with_seams, alone in pairs]
    edge = stats.bootstrap((added,), np.median, n_resamples=2000).confidence_interval
    interval = (float(edge.low), float(edge.high))
    bench.add(f"{kind}: added to a request", statistics.median(added), "µs", form.at_most(100), interval=interval)


if __name__ == "__main__":
    sys.exit(main())
