from __future__ import annotations

from typing import NamedTuple

from engine_parts import Slots

from sglang.srt.mem_cache.radix_cache import RadixCache, TreeNode


class PrefetchOperation:
    def __init__(self, identity, request_id, token_ids):
        self.id, self.request_id, self.token_ids = identity, request_id, token_ids
        self.host_indices, self.completed_tokens = None, 0


class _OngoingPrefetch(NamedTuple):
    last_host_node: TreeNode
    token_ids: list
    host_indices: object
    operation: PrefetchOperation


class HiRadixCache(RadixCache):
    load_back_threshold = 10
    page_size = 1

    def __init__(self, controller, *, write_policy="write_through"):
        self.cache_controller = controller
        self.cache_controller.write_policy = write_policy
        self.enable_storage = False
        self.prefetch_loaded_tokens_by_reqid = {}
        self.reset()

    def reset(self):
        TreeNode.counter = 0
        self.cache_controller.reset()
        self.cache_controller.mem_pool_host.clear()
        self.cache_controller.mem_pool_device.clear()
        self.ongoing_write_through, self.ongoing_load_back = {}, {}
        self.ongoing_prefetch, self.ongoing_backup = {}, {}
        super().reset()

    # -- backup

    def insert(self, tokens):
        key = tuple(tokens)
        if any(node.key == key for node in self.nodes):
            return
        device = self.cache_controller.mem_pool_device
        while device.available_size() < len(key) and self.evict(len(key) - device.available_size()):
            pass
        value = device.alloc(len(key))
        if value is None:
            return
        node = TreeNode(key)
        node.value = value
        self.nodes.append(node)
        self.touch(node)
        if self.cache_controller.write_policy != "write_back":
            self.write_backup(node)

    def write_backup(self, node, write_back=False):
        host_indices = self.cache_controller.write(device_indices=node.value, node_id=node.id)
        if host_indices is None:
            self.evict_host(len(node.value))
            host_indices = self.cache_controller.write(device_indices=node.value, node_id=node.id)
        if host_indices is None:
            return 0
        node.host_value = host_indices
        self.ongoing_write_through[node.id] = node
        node.locks += not write_back
        return len(host_indices)

    # -- eviction

    def evict(self, num_tokens) -> int:
        evicted, written = 0, []
        for node in sorted(self.nodes, key=lambda node: node.used):
            if evicted >= num_tokens:
                break
            if node.evicted or node.locks:
                continue
            if node.backuped:
                evicted += self._evict_backuped(node)
            elif self.cache_controller.write_policy == "write_back":
                evicted += self.write_backup(node, write_back=True)
                written += [node] if node.backuped else []
            else:
                evicted += self._evict_regular(node)
        if written:
            self.writing_check(write_back=True)
            for node in written:
                self._evict_backuped(node)
        return evicted

    def _evict_backuped(self, node):
        evicted = self.cache_controller.evict_device(node.value)
        node.value = None
        return evicted

    def _evict_regular(self, node):
        self.cache_controller.mem_pool_device_allocator.free(node.value)
        self.nodes.remove(node)
        return len(node.value)

    def evict_host(self, num_tokens):
        freed = 0
        for node in sorted(self.nodes, key=lambda node: node.used):
            if freed < num_tokens and node.evicted and node.backuped and not node.locks:
                freed += self.cache_controller.evict_host(node.host_value)
                self.nodes.remove(node)

    # -- load-back

    def init_load_back(self, last_node, host_hit_length, mem_quota=None):
        if last_node is not None and last_node.evicted:
            values = self.load_back(last_node, mem_quota)
            if values is not None:
                return values, last_node
        return Slots([]), None

    def load_back(self, node, mem_quota=None):
        tokens = len(node.host_value)
        if tokens < self.load_back_threshold or (mem_quota is not None and tokens > mem_quota):
            return None
        node.locks += 1
        value = self.cache_controller.load(host_indices=node.host_value, node_id=node.id)
        if value is None:
            self.evict(tokens)
            value = self.cache_controller.load(host_indices=node.host_value, node_id=node.id)
        node.value = value
        node.locks -= value is None
        if value is not None:
            self.ongoing_load_back[node.id] = node
        return value

    def ready_to_load_host_cache(self) -> int:
        return self.cache_controller.start_loading()

    # -- events

    def check_hicache_events(self):
        self.writing_check()
        self.loading_check()
        if self.enable_storage:
            self._drain_storage_control_queues_impl(n_revoke=0, n_backup=None, n_release=0, log_metrics=True)

    def writing_check(self, write_back=False):
        queue = self.cache_controller.ack_write_queue
        if write_back:
            for ack in queue:
                ack.finish_event.synchronize()
        done = sum(ack.finish_event.query() for ack in queue)
        for ack in queue[:done]:
            for node_id in ack.node_ids:
                self.ongoing_write_through.pop(node_id).locks -= not write_back
        del queue[:done]

    def loading_check(self):
        queue = self.cache_controller.ack_load_queue
        done = sum(ack.finish_event.query() for ack in queue)
        for ack in queue[:done]:
            for node_id in ack.node_ids:
                self.ongoing_load_back.pop(node_id).locks -= 1
        del queue[:done]

    # -- storage

    def prefetch_from_storage(self, req_id: str, last_host_node, new_input_tokens, last_hash=None, prefix_keys=None):
        if self.enable_storage and len(new_input_tokens) >= 256:
            operation = PrefetchOperation(len(self.ongoing_prefetch) + 7, req_id, list(new_input_tokens))
            self.ongoing_prefetch[req_id] = _OngoingPrefetch(last_host_node, new_input_tokens, None, operation)

    def check_prefetch_progress(self, req_id: str) -> bool:
        info = self.ongoing_prefetch.pop(req_id, None)
        if info is not None and info.operation.host_indices is not None:
            self.prefetch_loaded_tokens_by_reqid[req_id] = info.operation.completed_tokens - 1
        return True

    def pop_prefetch_loaded_tokens(self, req_id: str) -> int:
        return self.prefetch_loaded_tokens_by_reqid.pop(req_id, 0)

    def write_backup_storage(self, node):
        self.ongoing_backup[self.cache_controller.write_storage(node.host_value, list(node.key))] = node

    def _drain_storage_control_queues_impl(self, n_revoke, n_backup, n_release, log_metrics):
        for operation in list(self.ongoing_backup)[:n_backup]:
            del self.ongoing_backup[operation]

    def attach_storage_backend(self, storage_backend: str, served_model_name=None) -> tuple[bool, str]:
        self.enable_storage = storage_backend == "file"
        return self.enable_storage, "attached" if self.enable_storage else "unknown backend"

    def detach_storage_backend(self) -> tuple[bool, str]:
        self.enable_storage = False
        return True, "detached"
