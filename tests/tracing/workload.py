"""Everything that a fake engine can do, with all that can be seen of it from outside as the result."""

from __future__ import annotations

from typing import Any

from .engines import Engine

PROMPT = list(range(300))


def run(engine: Engine) -> list[Any]:
    """Two runs give equal lists if, and only if, the engine did the same: replies, attribution, slots, queues."""
    scheduler, tree, seen = engine.scheduler, engine.tree, []
    pools = tree.cache_controller.mem_pool_device, tree.cache_controller.mem_pool_host

    def look(*results: Any) -> None:
        controller = tree.cache_controller
        queues = controller.load_queue, controller.write_queue, controller.ack_load_queue, controller.ack_write_queue
        seen.append((results, [list(pool.free_slots) for pool in pools], [len(queue) for queue in queues]))

    def serve(rid: str, prompt: list[int], max_new_tokens: int = 1) -> None:
        look(reply(engine.serve(rid, prompt, max_new_tokens)))

    serve("cold", PROMPT)
    serve("device hit", [*PROMPT, 7])
    look(scheduler.evict(10**6))
    serve("host hit", [*PROMPT, 8], 3)
    scheduler.chunk = 100
    serve("chunked", list(range(1000, 1250)))
    scheduler.chunk = None
    retracted = scheduler.receive("retracted", list(range(2000, 2100)), 4)
    engine.steps(2)
    scheduler.retract(retracted)
    engine.steps(5)
    look(reply(retracted))
    aborted = scheduler.receive("aborted", list(range(3000, 3100)), 9)
    engine.steps(2)
    scheduler.abort(aborted)
    engine.settle()
    look(reply(aborted), scheduler.evict(10**6), tree.evict_host(200))
    _storage(engine, look)
    _write_back(engine, look)
    look(scheduler.weight_updater.update_weights_from_disk(None))
    look(scheduler.weight_updater.update_weights_from_tensor(recv_req=None))
    engine.steps(3)
    look(tree.reset())
    serve("after the reset", PROMPT)
    return seen


def reply(req: Any) -> tuple[Any, ...]:
    cached = req.cached_tokens, req.cached_tokens_device, req.cached_tokens_host, req.cached_tokens_storage
    return req.rid, list(req.output_ids), cached, type(req.finished_reason).__name__, req.retraction_count


def _storage(engine: Engine, look: Any) -> None:
    scheduler, tree = engine.scheduler, engine.tree
    look(tree.attach_storage_backend("nonsense"), tree.attach_storage_backend("file"))
    stored = scheduler.receive("stored", list(range(5000, 5300)))
    for info in tree.ongoing_prefetch.values():
        info.operation.host_indices = tree.cache_controller.mem_pool_host.alloc(200)
        info.operation.completed_tokens = 200
    revoked = scheduler.receive("revoked", list(range(6000, 6300)))
    short = scheduler.receive("short", list(range(6500, 6510)))
    engine.steps(3)
    engine.settle()
    look(reply(stored), reply(revoked), reply(short))
    core = getattr(tree, "tree_core", None)
    look(tree.write_backup_storage(tree.nodes[-1] if core is None else max(core.nodes)))
    engine.steps()
    look(tree.detach_storage_backend())


def _write_back(engine: Engine, look: Any) -> None:
    tree, controller = engine.tree, engine.tree.cache_controller
    controller.write_policy, tree.is_write_back = "write_back", True
    look(reply(engine.serve("to be written back", list(range(7000, 7100)))), engine.scheduler.evict(10**6))
    look(tree.evict_host(10**6))
    kept = controller.mem_pool_host.alloc(controller.mem_pool_host.available_size())
    look(reply(engine.serve("to be dropped", list(range(8000, 8100)))), engine.scheduler.evict(10**6))
    controller.mem_pool_host.free(kept)
    controller.write_policy, tree.is_write_back = "write_through", False
    look(reply(engine.serve("no room on the host", list(range(9000, 9100)))))
    kept = controller.mem_pool_host.alloc(controller.mem_pool_host.available_size())
    look(reply(engine.serve("not backed up", list(range(9500, 9600)))), engine.scheduler.evict(10**6))
    if kept is not None:
        controller.mem_pool_host.free(kept)
