"""Who the scheduler process is: its ranks, its cache and its sizes, as the ring's header tells them."""

from __future__ import annotations

import os
import sys
from typing import Any

from hicache_tracing import dialects
from hicache_tracing.records import ABSENT
from hicache_tracing.versions import version_of


def identity_of(scheduler: Any, tree: Any, controller: Any) -> dict[str, object]:
    """Who this process is, for the ring's header. Only configuration and sizes: no keys, no prompts."""
    args = getattr(scheduler, "server_args", None)
    pool = getattr(controller, "mem_pool_host", None)
    core = getattr(tree, "tree_core", None)
    per_token = dialects.bytes_per_token(controller)

    def argument(name: str) -> Any:
        return getattr(args, name, None)

    return {
        "plugin_version": version_of("hicache-witness"),
        "engine_version": version_of("sglang"),
        "role": "scheduler",
        "pid": os.getpid(),
        "tp_rank": _rank(scheduler, "tp_rank"),
        "pp_rank": _rank(scheduler, "pp_rank"),
        "dp_rank": _rank(scheduler, "dp_rank"),
        "attn_tp_rank": _rank(scheduler, "attn_tp_rank", None),  # 0: the first of its group under DP attention
        "attn_cp_rank": _rank(scheduler, "attn_cp_rank", None),  # 0: the first of those that share a prompt's attention
        "tp_size": argument("tp_size") or 1,
        "pp_size": argument("pp_size") or 1,
        "dp_size": argument("dp_size") or 1,
        "attn_cp_size": argument("attn_cp_size") or 1,
        "page_size": getattr(tree, "page_size", None),
        "bytes_per_token": None if per_token == ABSENT else per_token,
        "model": argument("model_path"),
        "served_model_name": argument("served_model_name"),
        "host": argument("host"),
        "port": argument("port"),
        "tree": type(tree).__name__,
        "tree_core": type(core).__name__ if core is not None else None,
        "controller": type(controller).__name__ if controller is not None else None,
        "write_policy": dialects.write_policy(tree, controller) or None,
        "io_backend": argument("hicache_io_backend"),
        "mem_layout": argument("hicache_mem_layout"),
        "storage_backend": argument("hicache_storage_backend"),
        "host_memory_mode": getattr(tree, "host_memory_mode", None),
        "device_tokens": getattr(scheduler, "max_total_num_tokens", None),
        "host_tokens": getattr(pool, "size", None),
        "load_back_threshold": getattr(tree, "load_back_threshold", None),
        "gpu_uuid": gpu_uuid(),
    }


def gpu_uuid() -> str | None:
    """The process's GPU as NVML names it (index and pid mean other things in a container); None on other devices."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    uuid = getattr(cuda.get_device_properties(cuda.current_device()), "uuid", None)
    return None if uuid is None else f"GPU-{uuid}"


def _rank(scheduler: Any, name: str, default: int | None = 0) -> int | None:
    """The scheduler's rank: its own attribute, in ``ps`` (0.5.16+), or in the process's get_parallel() (0.5.22+)."""
    current = getattr(sys.modules.get(type(scheduler).__module__), "get_parallel", None)
    holders = (scheduler, getattr(scheduler, "ps", None), current() if callable(current) else None)
    for holder in holders:
        value = getattr(holder, name, None)
        if isinstance(value, int):
            return value
    return default
