"""How often a request passes a seam on the real engine, and what all of that adds to it. Needs ``make engine``.

    python benchmarks/engine_calls.py [--rounds 25] [--release 0.5.16]
    python benchmarks/engine_calls.py --engine http://127.0.0.1:30000 --meter FOLDER --l1 16384 [--what "0.5.23, TP 2"]

SGLang (0.5.23 if no other is named) on CPU with a tiny model, content checking off, one request of 300 tokens and 8
answer tokens at a time; or an engine that runs elsewhere, with a GPU, started with benchmarks/seam_meter and the plugin
on its PYTHONPATH and $SEAM_METER=FOLDER. A meter stands around every seam of the scheduler's process and takes the time
of the whole call without the engine's own function in it; of several ranks the mean is taken, and what the loop of an
idle engine passes is taken off. Prompts are asked cold, again (L1), and once more after others have pushed them out of
L1 (L2); in every second round with the meter alone, the seams left out, so that its own share is known there and then.
What is added is the median difference of such a pair of rounds, with a 95 % bootstrap interval.

Most of it is no work but waiting for memory: a forward pass, or the engine's sleep, has pushed a seam's code and data
out of the processor's caches when it is called. In a loop the same calls take about a tenth: see ``seam_cost.py``.
"""

from __future__ import annotations

import random
import statistics
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import form
import httpx
import numpy as np
from scipy import stats

from hicache_proof.demo.engine import Engine, EngineSpec

METER = Path(__file__).parent / "seam_meter"
CELL = struct.Struct("<64sQq")  # as the meter writes it: seam, calls, nanoseconds
SWITCH = 255 * CELL.size + 64
PROMPT, ANSWER, SETTLE = 300, 8, 0.05
KINDS = ("cold", "L1 hit", "L2 hit")
IDLE = ("on_idle", "self_check_during_idle")


class Passed(NamedTuple):
    """What one request passed on its way."""

    calls: Counter[str]
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
            Counter({name: max(0, round(count - share * idle.calls[name])) for name, count in self.calls.items()}),
            {name: took - share * idle.us[name] for name, took in self.us.items()},
        )

    def turns(self) -> int:
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
            Counter({name: (calls[name] - self._calls[name]) // ranks for name in calls}),
            {name: (ns[name] - self._ns[name]) / 1e3 / ranks for name in ns},
        )
        self._calls, self._ns, self._of_each = calls, ns, of_each
        return passed


class Asked(NamedTuple):
    url: str
    l1: int
    """Tokens that fit into the engine's L1."""
    prompt: int
    vocabulary: int


def ask(engine: Asked, ids: list[int]) -> int:
    """Cached tokens of the answer."""
    body = {"input_ids": ids, "sampling_params": {"temperature": 0, "max_new_tokens": ANSWER, "ignore_eos": True}}
    reply = httpx.post(f"{engine.url}/generate", json=body, timeout=60, trust_env=False).raise_for_status().json()
    time.sleep(SETTLE)  # the backup of what it computed ends after the answer
    return int(reply["meta_info"]["cached_tokens"])


def one_round(engine: Asked, meter: Meter, draw: Callable[[], list[int]]) -> list[Passed]:
    """One prompt in each of KINDS."""
    ids, found = draw(), []
    for kind in KINDS:
        if kind == "L2 hit":
            for _ in range(engine.l1 // engine.prompt + 1):
                ask(engine, draw())
        meter.look()
        cached = ask(engine, ids)
        if (cached > 0) != (kind != "cold"):
            raise SystemExit(f"these figures mean nothing: a request meant as {kind} had {cached} cached tokens")
        passed = meter.look()
        time.sleep(SETTLE)
        found.append(passed.without(meter.look()))
    return found


def measure(engine: Asked, meter: Meter, rounds: int) -> dict[str, list[tuple[Passed, Passed]]]:
    """Pairs: with the seams, and with the meter alone."""
    chance = random.Random(1)
    draw = lambda: chance.choices(range(10, engine.vocabulary), k=engine.prompt)  # noqa: E731
    pairs = []
    for turn in range(-2, rounds):  # the first warm the process up
        both = {}
        for seams in (True, False) if turn % 2 else (False, True):
            meter.leave_out(not seams)
            both[seams] = one_round(engine, meter, draw)
        if turn >= 0:
            pairs.append(list(zip(both[True], both[False], strict=True)))
    return dict(zip(KINDS, map(list, zip(*pairs, strict=True)), strict=True))


def show(kind: str, pairs: list[tuple[Passed, Passed]]) -> None:
    print(f"{kind + ', by seam':44} {'calls':>6} {'µs added':>9} {'µs of the meter':>16}")
    for name in sorted(pairs[0][0].us):
        calls = statistics.median(passed.calls[name] for passed, _ in pairs)
        added = statistics.median(passed.us[name] - alone.us[name] for passed, alone in pairs)
        meter = statistics.median(alone.us[name] for _, alone in pairs)
        if calls:
            print(f"  {name:42} {calls:6g} {added:9.1f} {meter:16.1f}")


def demo(release: str, rounds: int) -> dict[str, list[tuple[Passed, Passed]]]:
    """Measured on the demo's engine, started for it."""
    with tempfile.TemporaryDirectory() as folder:
        spec = EngineSpec(release, content="off", paths=(METER,), variables={"SEAM_METER": folder})
        with Engine(spec, Path(folder) / "engine") as engine:
            return measure(Asked(engine.url, spec.max_total_tokens, PROMPT, 500), Meter(Path(folder)), rounds)


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--rounds", type=int, default=16)
    options.add_argument("--release", default=EngineSpec().version, help="of SGLang; one that has been set up")
    options.add_argument("--engine", metavar="URL", help="an engine that runs already")
    options.add_argument("--meter", type=Path, metavar="FOLDER", help="that engine's $SEAM_METER")
    options.add_argument("--l1", type=int, default=16_384, help="tokens that fit into that engine's L1")
    options.add_argument("--prompt", type=int, default=PROMPT, help="tokens of a request to that engine")
    options.add_argument("--gpu", help="what that engine runs on")
    options.add_argument("--what", help="that engine, for the figures' names")
    given = options.parse_args()
    if bool(given.engine) != bool(given.meter):
        options.error("--engine and --meter belong together")
    bench = form.Bench("engine_calls", given.history, given.gpu)
    if given.engine:
        asked = Asked(given.engine, given.l1, given.prompt, 150_000)
        found = measure(asked, Meter(given.meter), given.rounds)
    else:
        found = demo(given.release, given.rounds)
    if not any(name.endswith("init_load_back") for passed, _ in found["L2 hit"] for name in passed.calls):
        raise SystemExit("these figures mean nothing: no request was loaded back from L2")
    for kind, pairs in found.items():
        show(kind, pairs)
        report(bench, f"{given.what}: {kind}" if given.what else kind, pairs)
    return bench.end()


def report(bench: form.Bench, kind: str, pairs: list[tuple[Passed, Passed]]) -> None:
    together = sum((passed.calls for passed, _ in pairs), Counter())
    most = ", ".join(f"{name} {count / len(pairs):.3g}" for name, count in together.most_common(5))
    calls = statistics.median(passed.calls.total() for passed, _ in pairs)
    bench.add(f"{kind}: seam calls a request", calls, "calls", note=f"most often, a request: {most}")
    added = [with_seams.total_us - alone.total_us for with_seams, alone in pairs]
    edge = stats.bootstrap((added,), np.median, n_resamples=2000).confidence_interval
    interval = (float(edge.low), float(edge.high))
    bench.add(f"{kind}: added to a request", statistics.median(added), "µs", form.at_most(100), interval=interval)


if __name__ == "__main__":
    sys.exit(main())
