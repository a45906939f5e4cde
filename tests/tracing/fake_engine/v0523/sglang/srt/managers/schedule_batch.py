from __future__ import annotations

from engine_parts import BaseReq, ForwardMode


class Req(BaseReq):
    def __init__(self, rid, origin_input_ids, max_new_tokens=1):
        super().__init__(rid, origin_input_ids, max_new_tokens)
        self.prefix_len = self.extend_len = self.host_loaded_length = 0
        self.best_match_node = None


class ScheduleBatch:
    def __init__(self, reqs, forward_mode=ForwardMode.EXTEND):
        self.reqs, self.forward_mode = list(reqs), forward_mode

    def prepare_for_extend(self):
        for req in self.reqs:
            req.holds_kv = True
            req.count_cached(req.prefix_len, req.prefix_len + req.extend_len)
