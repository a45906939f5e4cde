from __future__ import annotations

from enum import Enum, auto

from sglang.srt.mem_cache.unified_radix_cache import InitLoadBackParams


class AddReqResult(Enum):
    CONTINUE = auto()
    NO_TOKEN = auto()
    OTHER = auto()


class PrefillAdder:
    def __init__(self, tree_cache, token_budget: int, chunk: int | None = None):
        self.tree_cache, self.token_budget, self.chunk = tree_cache, token_budget, chunk
        self.can_run_list = []

    def add_one_req(self, req, has_chunked_req: bool, truncation_align_size: int | None):
        if len(req.origin_input_ids) - req.prefix_len - req.host_hit_length > self.token_budget:
            return AddReqResult.NO_TOKEN
        if req.host_hit_length:
            params = InitLoadBackParams(req.best_match_node, req.host_hit_length, self.token_budget, req)
            loaded = self.tree_cache.init_load_back(params)
            if loaded is None:
                return AddReqResult.OTHER
            req.host_loaded_length, req.last_node = loaded
            req.prefix_len += req.host_loaded_length
            req.host_hit_length = min(req.host_hit_length, req.host_loaded_length)
        self.add_chunked_req(req)
        return AddReqResult.CONTINUE

    def add_chunked_req(self, req):
        left = len(req.origin_input_ids) + len(req.output_ids) - req.prefix_len
        req.extend_len = min(left, self.chunk or left)
        req.inflight_middle_chunks = int(req.extend_len < left)
        self.can_run_list.append(req)
