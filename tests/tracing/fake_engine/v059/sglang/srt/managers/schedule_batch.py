from __future__ import annotations

from engine_parts import BaseReq, ForwardMode


class Req(BaseReq):
    def __init__(self, rid, origin_input_ids, max_new_tokens=1):
        super().__init__(rid, origin_input_ids, max_new_tokens)
        self.prefix_indices = []
        self.extend_input_len = 0
        self.last_host_node = None


class ScheduleBatch:
    def __init__(self, reqs, forward_mode=ForwardMode.EXTEND):
        self.reqs, self.forward_mode = list(reqs), forward_mode

    def prepare_for_extend(self):
        for req in self.reqs:
            req.holds_kv = True
            prefix = len(req.prefix_indices)
            req.count_cached(prefix, prefix + req.extend_input_len)
