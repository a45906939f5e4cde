from __future__ import annotations


def release_kv_cache(req, tree_cache, *, checkpoint: bool):
    if not req.holds_kv:
        return
    if checkpoint:
        tree_cache.checkpoint(req, up_to=len(req.origin_input_ids))
    req.holds_kv = False
