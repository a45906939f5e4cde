from __future__ import annotations

from engine_parts import longest_prefix


class TreeNode:
    counter = 0

    def __init__(self, key):
        self.id = TreeNode.counter
        TreeNode.counter += 1
        self.key = tuple(key)
        self.value = self.host_value = None
        self.locks = self.used = 0

    @property
    def evicted(self):
        return self.value is None

    @property
    def backuped(self):
        return self.host_value is not None


class RadixCache:
    def reset(self):
        self.nodes: list[TreeNode] = []
        self.clock = 0

    def match_prefix(self, req):
        by_key = {node.key: node for node in self.nodes}
        node = req.last_host_node = by_key.get(longest_prefix(by_key, req.origin_input_ids))
        req.last_node = node if node is not None and not node.evicted else None
        req.prefix_indices = req.last_node.value if req.last_node is not None else []
        req.host_hit_length = len(node.key) if node is not None and node.evicted else 0
        if node is not None:
            self.touch(node)

    def touch(self, node):
        self.clock += 1
        node.used = self.clock

    def cache_finished_req(self, req, is_insert: bool = True):
        if is_insert:
            self.insert(req.origin_input_ids)

    def cache_unfinished_req(self, req, chunked=False):
        self.insert([*req.origin_input_ids, *req.output_ids][: req.already_computed])
