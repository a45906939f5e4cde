"""What engine is wanted, and the command and the environment variables that give it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from hicache_proof.demo.releases import NEWEST, Release

SHIMS = Path(__file__).parent / "shims"
FOREIGN = ("SGLANG_", "HICACHE_", "PYTHON", "PROMETHEUS_", "OTEL_")
"""Variables with these beginnings are not passed on: what the engine does follows from the spec alone."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """A small SGLang server on CPU, on 127.0.0.1."""

    version: str = NEWEST
    hicache: bool = True
    write_policy: Literal["write_through", "write_through_selective", "write_back"] = "write_through"
    page_size: int = 1
    tp_size: int = 1
    dp_size: int = 1
    """Replicas, each with an L1 and an L2 of the sizes below."""
    max_total_tokens: int = 1024
    """Capacity of L1, in tokens; also the longest context."""
    hicache_ratio: float = 4.0
    """Capacity of L2 as a multiple of L1's."""
    chunked_prefill_size: int = 512
    tree_core: Literal["rust", "python"] | None = None
    """None: the release's own default."""
    storage: Path | None = None
    """Folder of an L3 of plain files; None: no L3."""
    witness: bool = True
    content: Literal["off", "sampled", "full"] = "full"
    arguments: tuple[str, ...] = ()
    """More command-line arguments for SGLang; they win over ours."""
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """More environment variables; they win over ours."""
    paths: tuple[Path, ...] = ()
    """More folders, first on the engine's PYTHONPATH."""


def server_arguments(spec: EngineSpec, release: Release, model: Path, port: int) -> list[str]:
    options = {
        "model-path": model,
        "served-model-name": "tiny-qwen2",
        "load-format": "auto",
        "host": "127.0.0.1",
        "port": port,
        "device": "cpu",
        "dtype": "float32",
        "attention-backend": "torch_native",
        "sampling-backend": "pytorch",
        "grammar-backend": "none",
        "tp-size": spec.tp_size,
        "dp-size": spec.dp_size,
        "page-size": spec.page_size,
        "context-length": spec.max_total_tokens,
        "max-total-tokens": spec.max_total_tokens,
        "max-running-requests": 4,
        "chunked-prefill-size": spec.chunked_prefill_size,
        "random-seed": 1,
    }
    if spec.hicache:
        options |= {
            "hicache-ratio": spec.hicache_ratio,
            "hicache-io-backend": "direct",
            "hicache-mem-layout": "layer_first",
            "hicache-write-policy": spec.write_policy,
        }
    if spec.storage:
        options |= {"hicache-storage-backend": "file", "hicache-storage-prefetch-policy": "wait_complete"}
    # An idle scheduler polls without pause else: a whole core, and a demo has two of them on two cores.
    flags = ["--enable-metrics", "--enable-cache-report", "--sleep-on-idle", *release.graph_arguments]
    if spec.hicache:
        flags.append("--enable-hierarchical-cache")
    pairs = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [*pairs, *flags, *spec.arguments]


def environment_variables(
    spec: EngineSpec, inherited: Mapping[str, str], python_path: tuple[Path, ...], rings: Path
) -> dict[str, str]:
    """``python_path``: folders after the spec's own and the shims; ``rings``: where the plugin writes."""
    variables = {name: value for name, value in inherited.items() if not name.startswith(FOREIGN)}
    variables |= {
        "PYTHONPATH": os.pathsep.join(str(folder) for folder in (SHIMS, *spec.paths, *python_path)),
        "SGLANG_USE_CPU_ENGINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",  # needs a C++ compiler, and gains a model this small nothing
    }
    ranks = spec.tp_size * spec.dp_size
    if ranks > 1:
        variables["SGLANG_CPU_OMP_THREADS_BIND"] = _one_core_a_rank(ranks)
    if spec.tree_core:
        variables["SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND"] = spec.tree_core
    if spec.storage:
        variables["SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR"] = str(spec.storage)
    if spec.witness:
        variables |= {
            "HICACHE_WITNESS": "1",
            "HICACHE_WITNESS_DIR": str(rings),
            "HICACHE_WITNESS_CONTENT": spec.content,
        }
    return variables | dict(spec.variables)


def _one_core_a_rank(ranks: int) -> str:
    cores = sorted(os.sched_getaffinity(0))
    return "|".join(str(cores[rank % len(cores)]) for rank in range(ranks))
