from __future__ import annotations


def release_kv_cache(req, tree_cache, is_insert: bool = True):
    if not req.holds_kv:
        return
    tree_cache.cache_finished_req(req, is_insert=is_insert)
    req.holds_kv = False
