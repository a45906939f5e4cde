"""Record a full session on a GPU machine: the real engine, its GPUs, its host, under traffic that makes L2 work.

    python tests/gpu/record_session.py MODEL FILE [--minutes 6] [--tp 1] [--python ENGINE_PYTHON] [-- SGLANG OPTIONS]

Starts SGLang with the plugin, a sidecar and the traffic, records what the sidecar serves every 5 seconds, and ends
all of it. Then copy FILE to deploy/sessions/h200.xz: the stack tests run every query of every panel against it, and
what its rings alone could not tell has to be there (take "h200" out of RINGS_ONLY in tests/stack/test_replay.py).
Random token ids only; a model with dummy weights (-- --load-format dummy) is as good as any.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from click.testing import CliRunner

from hicache_dashboards.session import command
from hicache_proof.demo import leash
from hicache_proof.demo.ports import free_port
from hicache_proof.demo.sidecar import Sidecar

ROOT = Path(__file__).resolve().parents[2]
L1_TOKENS = 65_536
PROMPT_TOKENS = 8_000
PREFIXES = 12
"""More than L1 holds, less than L1 and L2 together: asked for in turn, each comes back from L2."""
VOCABULARY = range(10, 30_000)
START_DEADLINE = 900.0
NAME = "engine:30000"


@contextmanager
def engine(options: argparse.Namespace, folder: Path, rings: Path) -> Iterator[str]:
    """A server of the model; its address."""
    port = free_port()
    words = [options.python, "-m", "sglang.launch_server", "--model-path", options.model, "--host", "127.0.0.1"]
    words += ["--port", str(port), "--tp-size", str(options.tp), "--max-total-tokens", str(L1_TOKENS)]
    words += ["--page-size", "64", "--enable-hierarchical-cache", "--hicache-ratio", "3", "--skip-tokenizer-init"]
    words += ["--enable-metrics", "--enable-metrics-for-all-schedulers", "--enable-cache-report", *options.sglang]
    plugin = os.pathsep.join([str(ROOT / "tracing_patch"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    variables = {"HICACHE_WITNESS": "1", "HICACHE_WITNESS_DIR": str(rings), "HICACHE_WITNESS_CONTENT": "full"}
    with (folder / "engine.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", leash.__file__, *words],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, **variables, "PYTHONPATH": plugin},
        )
    try:
        wait(f"http://127.0.0.1:{port}/health", process, folder / "engine.log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.communicate(timeout=leash.GRACE + 60)


def wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_DEADLINE
    while time.monotonic() < end and process.poll() is None:
        try:
            if httpx.get(url, timeout=10, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(1)
    raise SystemExit(f"the engine does not serve; its log ends with:\n{log.read_text(errors='replace')[-3000:]}")


@contextmanager
def traffic(url: str, tokens: int, vocabulary: range) -> Iterator[None]:
    """Prefixes that return after others pushed them out of L1; one prompt in six is new."""
    over = threading.Event()
    prefixes = [random.choices(vocabulary, k=tokens) for _ in range(PREFIXES)]

    def ask() -> None:
        turn = 0
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
            while not over.is_set():
                turn += 1
                prompt = prefixes[turn // 2 % PREFIXES] if turn % 6 else random.choices(vocabulary, k=tokens)
                parameters = {"max_new_tokens": 16, "ignore_eos": True}
                client.post("/generate", json={"input_ids": prompt, "sampling_params": parameters}).raise_for_status()
                over.wait(0.2)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def record(url: str, rings: Path, folder: Path, file: Path, minutes: float, tokens: int, vocabulary: range) -> str:
    """Watch a running engine under traffic. Returns what there is to say of the file."""
    with Sidecar(url, rings, folder) as sidecar, traffic(url, tokens, vocabulary):
        words = ["record", sidecar.url, str(file), "--minutes", str(minutes)]
        words += ["--ring-dir", str(rings), "--rename", f"{url[7:]}={NAME}"]
        done = CliRunner().invoke(command.main, words, catch_exceptions=False)
    if done.exit_code:
        raise SystemExit(done.output)
    return done.output.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder or name of the model")
    parser.add_argument("file", type=Path, help="the session, such as h200.xz")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--python", default=sys.executable, help="the Python that has SGLang")
    words = sys.argv[1:]
    own = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:own], argparse.Namespace(sglang=words[own + 1 :]))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        rings = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        url = stack.enter_context(engine(options, folder, rings))
        if not any(rings.glob("*.ring")):
            raise SystemExit("no flight recorder: install hicache-witness in the Python that has SGLang")
        print(record(url, rings, folder, options.file, options.minutes, PROMPT_TOKENS, VOCABULARY))


if __name__ == "__main__":
    main()
