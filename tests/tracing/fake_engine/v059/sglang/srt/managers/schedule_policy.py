from __future__ import annotations

from enum import Enum, auto


class AddReqResult(Enum):
    CONTINUE = auto()
    NO_TOKEN = auto()


class PrefillAdder:
    def __init__(self, tree_cache, token_budget: int, chunk: int | None = None):
        self.tree_cache, self.token_budget, self.chunk = tree_cache, token_budget, chunk
        self.can_run_list = []

    def add_one_req(self, req, has_chunked_req: bool, truncation_align_size: int | None):
        if len(req.origin_input_ids) - len(req.prefix_indices) - req.host_hit_length > self.token_budget:
            return AddReqResult.NO_TOKEN
        if req.host_hit_length:
            loaded, req.last_node = self.tree_cache.init_load_back(
                req.last_host_node, req.host_hit_length, self.token_budget
            )
            req.prefix_indices = [*req.prefix_indices, *loaded]
        self.add_chunked_req(req)
        return AddReqResult.CONTINUE

    def add_chunked_req(self, req):
        left = len(req.origin_input_ids) + len(req.output_ids) - len(req.prefix_indices)
        req.extend_input_len = min(left, self.chunk or left)
        req.inflight_middle_chunks = int(req.extend_input_len < left)
        self.can_run_list.append(req)
