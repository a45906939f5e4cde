"""All that wants a real engine on a GPU: starts SGLang for each and runs the benchmarks that ask it.

    PYTHONPATH=tracing_patch:exporter:proof python benchmarks/on_gpu.py [--only recorder reads] [--history FILE]
        [--engine-arguments "--attention-backend triton"] [--path FOLDER]

Python: one with SGLang 0.5.16 or newer, aiohttp, httpx, scipy, matplotlib and msgspec, and a GPU with 60 GB to spare;
nothing is installed, nothing fetched. The model is of Qwen2-7B's shape with dummy weights and no tokenizer: times are
a real engine's, answers are not. One engine at a time, each for one of

- recorder: the recorder's seams in and out (engine_overhead.py)
- full, sampled: the same with the content witness
- tracing: SGLang's own, on and off
- meter: what the seams add to a request, alone and of 64 at once (engine_calls.py)
- reads: what comparisons cost with 64 requests at once, and when they run (content_calls.py, content_profile.py)
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import form

from hicache_proof.demo.answering import answers
from hicache_proof.demo.plugin_path import write_plugin

HERE = Path(__file__).parent
PORT, START_SECONDS = 30_000, 600
MODEL = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Plan(NamedTuple):
    """An engine, and what is asked of it."""

    content: str = "off"
    tool: str = ""
    """What else is on the engine's path: seam_switch or seam_meter."""
    tracing: bool = False
    l1: int = 196_608
    """Tokens. A burst of 64 prompts of 2,048 tokens fits."""
    ratio: int = 2
    """L2 over L1."""


PLANS = {
    "recorder": Plan(tool="seam_switch"),
    "full": Plan("full", "seam_switch"),
    "sampled": Plan("sampled", "seam_switch"),
    "tracing": Plan(tracing=True),
    "meter": Plan(tool="seam_meter", l1=81_920, ratio=4),
    "reads": Plan("full", "seam_meter", l1=81_920, ratio=4),
}
WHAT = {
    "recorder": "recorder",
    "full": "recorder and content full",
    "sampled": "recorder and content sampled",
    "tracing": "SGLang's own tracing",
}


def arguments(plan: Plan, model: Path, more: str) -> list[str]:
    """Of SGLang's server."""
    (model / "config.json").write_text(json.dumps(MODEL))
    words = f"""--model-path {shlex.quote(str(model))} --load-format dummy --skip-tokenizer-init --host 127.0.0.1
        --port {PORT} --enable-metrics --enable-cache-report --page-size 64 --mem-fraction-static 0.5
        --max-total-tokens {plan.l1} --context-length 40000 --enable-hierarchical-cache --hicache-ratio {plan.ratio}"""
    if plan.tracing:  # nobody listens there: what is measured is what the engine does for it
        words += " --enable-trace --otlp-traces-endpoint http://127.0.0.1:9/v1/traces"
    return shlex.split(words) + shlex.split(more)


def environment(plan: Plan, folder: Path, paths: list[Path]) -> dict[str, str]:
    """The plugin as SGLang finds an installed one, in front of it the plan's tool; the ring in ``folder``."""
    write_plugin(folder / "plugin", "0", {"hicache_witness": "hicache_tracing:register"})
    for name in ("rings", "seam_switch", "seam_meter"):
        (folder / name).mkdir(mode=0o700)
    tools = [HERE / plan.tool] if plan.tool else []
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HICACHE_", "SEAM_"))}
    given = {
        "PYTHONPATH": os.pathsep.join(map(str, [*tools, *paths, folder / "plugin"])),
        "HICACHE_WITNESS_DIR": str(folder / "rings"),
        "HICACHE_WITNESS_CONTENT": plan.content,
    }
    if plan.tool:
        given |= {"HICACHE_WITNESS": "1", plan.tool.upper(): str(folder / plan.tool)}
    return inherited | given


@contextmanager
def engine(plan: Plan, folder: Path, more: str, paths: list[Path]) -> Iterator[None]:
    """Serves on PORT within the block. Its log is ``folder``/log."""
    (folder / "model").mkdir()
    command = [sys.executable, "-m", "sglang.launch_server", *arguments(plan, folder / "model", more)]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env=environment(plan, folder, paths), start_new_session=True
        )
    try:
        wait(server, folder / "log")
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def wait(server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        if answers(f"http://127.0.0.1:{PORT}/health_generate", 10):
            return
        time.sleep(0.5)
    last = "\n".join(line[:200] for line in log.read_text(errors="replace").splitlines()[-15:])
    raise SystemExit(f"the engine does not serve. The end of its log:\n{last}")


def steps(name: str, plan: Plan, folder: Path, given: argparse.Namespace) -> list[list[str]]:
    """The benchmarks that ask this plan's engine, and their arguments."""
    served = ["--engine", f"http://127.0.0.1:{PORT}"]
    kept = ["--gpu", given.gpu, *(["--history", str(given.history)] if given.history else [])]
    release = version("sglang")
    if name in WHAT:
        how = ["--trace"] if plan.tracing else ["--switch", str(folder / "seam_switch")]
        aim = ["--aim", "0.5"] if name == "recorder" else []
        what = ["--what", f"{release}, {WHAT[name]}, CUDA graphs", "--seconds", str(given.seconds), *aim]
        return [["engine_overhead.py", *served, *how, *what, *kept]]
    burst = ["--at-once", "64", "--prompt", "1024", "--answer", "64", "--rounds", "2"]
    metered = ["engine_calls.py", *served, "--meter", str(folder / "seam_meter"), "--l1", str(plan.l1)]
    if name == "meter":
        return [[*metered, *more, "--what", release, *kept] for more in (burst, ["--prompt", "4096"])]
    compared = ["content_calls.py", "--rings", str(folder / "rings"), "--what", f"{release}, 64 at once", *kept]
    picture = ["--picture", str(HERE.parent / "docs" / "pictures" / "content_profile.svg")]
    return [
        [*metered, *burst],  # for its load: with the witness, what the seams add is not the recorder's alone
        compared,
        ["content_profile.py", *served, "--l1", str(plan.l1), *picture, *kept],
    ]


def main() -> int:
    options = form.options(__doc__)
    options.add_argument("--only", nargs="+", choices=PLANS, default=list(PLANS), help="these, in this order")
    options.add_argument("--seconds", type=int, default=300, help="of engine_overhead.py, for each engine")
    options.add_argument("--engine-arguments", default="", metavar="WORDS", help="more arguments for SGLang's server")
    options.add_argument("--path", type=Path, action="append", default=[], help="more for the engine's PYTHONPATH")
    options.add_argument("--gpu", default="a GPU", help="what it is, for the figures")
    given = options.parse_args()
    failed = []
    for name in given.only:
        plan = PLANS[name]
        print(f"== {name}: starting an engine", flush=True)
        with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
            folder = Path(scratch)
            with engine(plan, folder, given.engine_arguments, given.path):
                for script, *words in steps(name, plan, folder, given):
                    print(f"-- {script}", flush=True)
                    if subprocess.run([sys.executable, str(HERE / script), *words], check=False).returncode:
                        failed.append(f"{name}: {script}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
