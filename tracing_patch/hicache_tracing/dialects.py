"""What differs between engine versions, found by looking at the objects, never at a version number.

Reading is by ``getattr`` with a default: a field that this engine lacks is ABSENT, not an error. Nothing here walks
the tree, copies from a device or waits for it.
"""

from __future__ import annotations

import sys
from typing import Any

from hicache_tracing.records import ABSENT


def number(value: Any) -> int:
    """An engine's number, ABSENT for None (0 and absent are different facts)."""
    return ABSENT if value is None else int(value)


def node_id(node: Any) -> int:
    """A tree node: an int handle (unified tree from 0.5.17) or an object with ``id``."""
    if isinstance(node, int):
        return node
    return number(getattr(node, "id", None))


def device_prefix(req: Any) -> int:
    """Tokens of the request's prefix that L1 holds: ``prefix_len`` (0.5.22+) or the length of ``prefix_indices``."""
    length = getattr(req, "prefix_len", None)
    return int(len(req.prefix_indices) if length is None else length)


def best_node(req: Any) -> int:
    """The deepest node that the lookup matched, on any tier."""
    return node_id(getattr(req, "best_match_node", None) or getattr(req, "last_host_node", None))


def loaded_tokens(result: Any) -> int:
    """What init_load_back answers: (count, node) from 0.5.22, (indices, node) before, None in buffer mode."""
    if result is None:
        return 0
    loaded = result[0]
    return int(loaded) if isinstance(loaded, int) else len(loaded)


def is_hybrid(tree: Any) -> bool:
    """Whether the unified tree keeps state of other kinds beside the KV of full attention (Mamba, sliding window)."""
    return len(getattr(tree, "tree_components", None) or ()) > 1


def first_chunk(req: Any) -> int:
    """Prompt tokens of the first prefill chunk: ``extend_len``, ``extend_range`` (0.5.16) or ``extend_input_len``."""
    length = getattr(req, "extend_len", None)
    if length is None:
        in_range = getattr(getattr(req, "extend_range", None), "length", None)
        length = getattr(req, "extend_input_len", in_range)
    return number(length)


def request_times(req: Any) -> tuple[int, int]:
    """(entered the waiting queue, first prefill started), CLOCK_MONOTONIC ns; the engine keeps perf_counter seconds."""
    stats = getattr(req, "time_stats", None)
    received = getattr(stats, "wait_queue_entry_time", 0.0)
    started = getattr(stats, "forward_entry_time", 0.0)
    return int(received * 1e9) if received else ABSENT, int(started * 1e9) if started else ABSENT


def aborted(req: Any) -> bool:
    return type(getattr(req, "finished_reason", None)).__name__ == "FINISH_ABORT"


def hicache_tree(scheduler: Any) -> Any:
    """The radix cache behind the scheduler; a streaming-session wrapper (0.5.10) keeps it in ``inner``, and gives out
    what that has as if it were its own.
    """
    tree = getattr(scheduler, "tree_cache", None)
    inner = getattr(tree, "inner", None)
    nearest = tree if inner is None else inner
    return next((one for one in (inner, tree) if getattr(one, "cache_controller", None) is not None), nearest)


def full_tokens(tracker: Any) -> int:
    """Evicted tokens of the full-attention component in the unified tree's tracker."""
    for component, tokens in tracker.items():
        if is_full(component):
            return int(tokens)
    return 0


def evicted_tokens(result: Any) -> int:
    """Tokens that left the device: a number, (KV tokens, Mamba states) of the Mamba tree, or nothing."""
    return int((result[0] if isinstance(result, tuple) else result) or 0)


def is_full(component: Any) -> bool:
    """Whether it is the member of the engine's enum for full attention. (Its ``name`` is a property, and slow.)"""
    return getattr(component, "_name_", "") == "FULL"


def is_backed_up(tree: Any, node: Any) -> bool:
    """Whether the node has a host copy: asked of the tree core (int handles) or of the node itself."""
    if isinstance(node, int):
        return bool(tree.tree_core.is_backuped(node))
    return bool(node.backuped)


def host_slots(tree: Any, node: Any) -> Any:
    """Host slots of a node that has just left the device, as the engine's own index tensor on the CPU; None: unknown.

    A node object carries them. Behind an int handle the tree core is asked for what loading the node back would read
    (``build_hicache_transfers``, a read without effect that the scheduler's admission makes too): devices evict from
    the leaves, so directly after its eviction that is this one node.
    """
    if not isinstance(node, int):
        slots = getattr(node, "host_value", None)
        return getattr(_full_data(node), "host_value", None) if slots is None else slots
    names = sys.modules[type(tree).__module__]
    transfers = tree.tree_core.build_hicache_transfers(
        names.ComponentType.FULL,
        node,
        names.CacheTransferPhase.LOAD_BACK,
    )
    return transfers[0].host_indices if transfers else None


def _full_data(node: Any) -> Any:
    """Per-component data of a unified tree's node object (0.5.12 to 0.5.16): that of full attention."""
    data = getattr(node, "component_data", None)
    pairs = data.items() if isinstance(data, dict) else ()
    return next((value for component, value in pairs if is_full(component)), None)


def page_size(tree: Any) -> int:
    """Tokens of a page, on the device and on the host; 1 where the tree does not say."""
    size = getattr(tree, "page_size", None)
    return size if isinstance(size, int) else 1


def write_policy(tree: Any, controller: Any) -> str:
    if getattr(tree, "is_write_back", False) is True:
        return "write_back"
    return str(getattr(controller, "write_policy", ""))


# -- acknowledgements --------------------------------------------------------------------------------------------


def timed(ack: Any) -> bool:
    """Whether the ack's events can be asked for their distance (0.5.16+ loads, 0.5.18+ both)."""
    return getattr(ack, "timing_enabled", False) is True


def device_ns(ack: Any) -> int:
    """Nanoseconds between the engine's own two events on the device clock. Both have finished: this does not wait."""
    if not timed(ack):
        return ABSENT
    return int(ack.start_event.elapsed_time(ack.finish_event) * 1e6)


def ack_bytes(ack: Any, tokens: int, controller: Any) -> int:
    """Bytes of a transfer: the ack's own number over all pools (0.5.18+), else tokens times the KV bytes of one."""
    size = getattr(ack, "num_bytes", 0)
    if size:
        return int(size)
    per_token = bytes_per_token(controller)
    return tokens * per_token if per_token > 0 else ABSENT


def other_pools(ack: Any, controller: Any) -> list[tuple[str, int, int]]:
    """(name, tokens, bytes) of what a transfer moves beside the anchor pool's KV (0.5.18+: the ack counts by pool)."""
    counts = getattr(ack, "num_tokens_by_pool", None) or {}
    if len(counts) < 2:
        return []
    group = getattr(controller, "mem_pool_host", None)
    entries = getattr(group, "entry_map", None) or {}
    anchor = getattr(getattr(group, "anchor_entry", None), "name", "kv")
    sizes = {
        _pool(name): number(getattr(getattr(entry, "host_pool", None), "size_per_token", None))
        for name, entry in entries.items()
    }
    told = [(_pool(name), int(tokens)) for name, tokens in counts.items()]
    return [
        (name, tokens, tokens * size if (size := sizes.get(name, ABSENT)) != ABSENT else ABSENT)
        for name, tokens in told
        if name != _pool(anchor)
    ]


def _pool(name: Any) -> str:
    return str(getattr(name, "value", name))


def bytes_per_token(controller: Any) -> int:
    """KV bytes of one token on this rank: the host pool's ``size_per_token`` (a group keeps it in its anchor)."""
    pool = getattr(controller, "mem_pool_host", None)
    anchor = getattr(getattr(pool, "anchor_entry", None), "host_pool", None)
    for candidate in (anchor, pool):
        size = getattr(candidate, "size_per_token", None)
        if size is not None:
            return int(size)
    return ABSENT


# -- memory ------------------------------------------------------------------------------------------------------


def memory(scheduler: Any, controller: Any) -> tuple[int, ...]:
    """Bytes (allocated, reserved by torch's allocator, weights, device KV pool, host pool) and whether that is pinned.

    The allocator is asked only if the engine has loaded torch and set up a CUDA device; ABSENT on other devices.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    allocated = reserved = weights = ABSENT
    if cuda is not None and cuda.is_initialized():
        statistics = cuda.memory_stats_as_nested_dict()
        allocated = int(statistics["allocated_bytes"]["all"]["current"])
        reserved = int(statistics["reserved_bytes"]["all"]["current"])
        weights = _weights(scheduler)
    host = getattr(controller, "mem_pool_host", None)
    host = getattr(getattr(host, "anchor_entry", None), "host_pool", host)
    per_token, slots = bytes_per_token(controller), getattr(host, "size", None)
    host_bytes = per_token * slots if slots is not None and per_token > 0 else ABSENT
    rows = getattr(host, "kv_buffer", None)
    if isinstance(rows, (list, tuple)):
        rows = rows[0] if rows else None
    is_pinned = getattr(rows, "is_pinned", None)
    pinned = is_pinned() if is_pinned is not None else None
    return (
        allocated,
        reserved,
        weights,
        _pool_bytes(getattr(controller, "mem_pool_device", None)),
        host_bytes,
        ABSENT if pinned is None else int(pinned is True),
    )


def _weights(scheduler: Any) -> int:
    """Device memory that loading the weights took, as the model runner measured it (GiB there)."""
    runner = getattr(getattr(scheduler, "tp_worker", None), "model_runner", None)
    taken = getattr(runner, "weight_load_mem_usage", None)
    return int(taken * (1 << 30)) if isinstance(taken, float) and taken > 0 else ABSENT


def _pool_bytes(pool: Any) -> int:
    measure = getattr(pool, "get_kv_size_bytes", None)
    if measure is None:
        return ABSENT
    size = measure()
    return int(sum(size)) if isinstance(size, tuple) else int(size)
