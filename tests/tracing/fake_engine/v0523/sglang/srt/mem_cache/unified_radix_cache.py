from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from engine_parts import longest_prefix


class ComponentType(Enum):
    FULL = 0
    SWA = 1


class CacheTransferPhase(Enum):
    BACKUP_HOST = "backup_host"
    LOAD_BACK = "load_back"


class PoolTransfer(NamedTuple):
    host_indices: Any


@dataclass(frozen=True)
class CacheRequestHandle:
    rid: str
    attempt_id: int = 0


@dataclass
class InitLoadBackParams:
    best_match_node: Any
    host_hit_length: int
    mem_quota: int | None = None
    req: Any = None


@dataclass
class PrefetchOperation:
    id: int
    handle: CacheRequestHandle
    token_ids: list
    host_indices: Any = None
    completed_tokens: int = 0
    storage_hit_count: int = 0
    stats_requested_tokens: int = 0
    deadline_expired: bool = False


class _OngoingPrefetch(NamedTuple):
    last_host_node_id: int
    prefetch_key: list
    host_indices: Any
    operation: PrefetchOperation


@dataclass
class _Node:
    key: tuple
    device: Any = None
    host: Any = None
    locks: int = 0
    used: int = 0


class TreeCore:
    """Holds the nodes; outside, a node is its number."""

    def __init__(self):
        self.nodes: dict[int, _Node] = {}
        self.last_id = 0
        self.clock = 0

    def add(self, key) -> int:
        self.last_id += 1
        self.nodes[self.last_id] = _Node(tuple(key))
        return self.last_id

    def find(self, prompt) -> int | None:
        by_key = {node.key: identity for identity, node in self.nodes.items()}
        return by_key.get(longest_prefix(by_key, prompt))

    def touch(self, node_id):
        self.clock += 1
        self.nodes[node_id].used = self.clock

    def build_hicache_transfers(self, component, node_id, phase):
        node = self.nodes[node_id]
        return [PoolTransfer(node.host)] if node.device is None and node.host is not None else None

    def is_backuped(self, node_id) -> bool:
        return self.nodes[node_id].host is not None


class UnifiedRadixCache:
    load_back_threshold = 10
    host_memory_mode = "cache"
    page_size = 1

    def __init__(self, controller, *, write_policy="write_through"):
        self.cache_controller = controller
        self.cache_controller.write_policy = write_policy
        self.is_write_back = write_policy == "write_back"
        self.enable_storage = False
        self.reset()

    def reset(self) -> None:
        self.tree_core = TreeCore()
        self.ongoing_write_through, self.ongoing_load_back = {}, {}
        self.ongoing_prefetch, self.ongoing_backup = {}, {}
        self.prefetch_loaded_tokens_by_reqid = {}
        self.cache_controller.reset()
        self.cache_controller.mem_pool_host.clear()
        self.cache_controller.mem_pool_device.clear()

    # -- requests

    def match_prefix(self, req):
        node_id = req.best_match_node = self.tree_core.find(req.origin_input_ids)
        node = self.tree_core.nodes.get(node_id)
        req.last_node = node_id if node is not None and node.device is not None else None
        req.prefix_len = len(node.key) if req.last_node is not None else 0
        req.host_hit_length = len(node.key) if node is not None and node.device is None else 0
        if node is not None:
            self.tree_core.touch(node_id)

    def checkpoint(self, req, *, up_to: int, **kwargs) -> None:
        key = tuple([*req.origin_input_ids, *req.output_ids][:up_to])
        if any(node.key == key for node in self.tree_core.nodes.values()):
            return
        device = self.cache_controller.mem_pool_device
        while device.available_size() < len(key) and self._evict(len(key) - device.available_size()):
            pass
        value = device.alloc(len(key))
        if value is None:
            return
        node_id = self.tree_core.add(key)
        self.tree_core.nodes[node_id].device = value
        self.tree_core.touch(node_id)
        if not self.is_write_back:
            self._execute_kv_backup(node_id)

    def _execute_kv_backup(self, node_id):
        node = self.tree_core.nodes[node_id]
        short = len(node.key) - self.cache_controller.mem_pool_host.available_size()
        if short > 0 and self.evict_host(short) < short:
            return None
        node.host = self.cache_controller.write(node.device, node_id=node_id, extra_pools=None, flush=False)
        if node.host is not None:
            self.ongoing_write_through[node_id] = node
            node.locks += not self.is_write_back
        return node.host

    # -- eviction

    def _evict(self, num_tokens) -> int:
        tracker = dict.fromkeys(ComponentType, 0)
        for node_id, node in sorted(self.tree_core.nodes.items(), key=lambda item: item[1].used):
            if tracker[ComponentType.FULL] >= num_tokens:
                break
            if node.device is None or node.locks:
                continue
            if self._evict_device_leaf(node_id, tracker) is not None:
                if self._execute_kv_backup(node_id) is not None:
                    self.writing_check(write_back=True)
                    self._demote(node_id, tracker)
                else:
                    self._drop_subtree_no_host(node_id, tracker)
        return tracker[ComponentType.FULL]

    def _evict_device_leaf(self, node_id, tracker):
        if self.is_write_back and not self.tree_core.is_backuped(node_id):
            return node_id  # to be backed up first
        self._free_device(node_id, tracker)
        return None

    def _demote(self, node_id, tracker) -> None:
        self._free_device(node_id, tracker)

    def _drop_subtree_no_host(self, node_id, tracker) -> bool:
        self._free_device(node_id, tracker)
        return True

    def _free_device(self, node_id, tracker):
        node = self.tree_core.nodes[node_id]
        self.cache_controller.mem_pool_device.free(node.device)
        tracker[ComponentType.FULL] += len(node.device)
        node.device = None
        if node.host is None:
            del self.tree_core.nodes[node_id]

    def evict_host(self, num_tokens: int, component_type=ComponentType.FULL) -> int:
        freed = 0
        for node_id, node in sorted(self.tree_core.nodes.items(), key=lambda item: item[1].used):
            if freed < num_tokens and node.device is None and node.host is not None and not node.locks:
                self.cache_controller.mem_pool_host.free(node.host)
                freed += len(node.host)
                del self.tree_core.nodes[node_id]
        return freed

    # -- load-back

    def init_load_back(self, params: InitLoadBackParams):
        if self.host_memory_mode == "buffer_only":
            return None
        node_id, node = params.best_match_node, self.tree_core.nodes.get(params.best_match_node)
        if node is not None and node.device is None and self.load_back(node_id, params.mem_quota):
            return len(node.key), node_id
        return 0, params.req.last_node

    def load_back(self, node_id, mem_quota=None) -> bool:
        node, device = self.tree_core.nodes[node_id], self.cache_controller.mem_pool_device
        tokens = len(node.host)
        if tokens < self.load_back_threshold or (mem_quota is not None and tokens > mem_quota):
            return False
        node.locks += 1
        if device.available_size() < tokens:
            self._evict(tokens - device.available_size())
        value = None
        if device.available_size() >= tokens:
            value = self.cache_controller.load(host_indices=node.host, node_id=node_id, extra_pools=None)
        node.device = value
        node.locks -= value is None
        if value is not None:
            self.ongoing_load_back[node_id] = node
        return value is not None

    def ready_to_load_host_cache(self) -> int:
        return self.cache_controller.start_loading()

    # -- events

    def check_hicache_events(self):
        self.flush_pending_backups()
        self.writing_check(finish_count=self._ready(self.cache_controller.ack_write_queue))
        self.loading_check(finish_count=self._ready(self.cache_controller.ack_load_queue))
        if self.enable_storage:
            self._drain_storage_control_queues_impl(0, 0, None, 0, None, True)

    def flush_pending_backups(self):
        self.cache_controller.start_writing()

    @staticmethod
    def _ready(queue):
        return sum(ack.finish_event.query() for ack in queue)

    def writing_check(self, write_back: bool = False, finish_count: int | None = None) -> None:
        queue = self.cache_controller.ack_write_queue
        if write_back:
            self.cache_controller.start_writing()
            finish_count = len(queue)
        for ack in queue[:finish_count]:
            ack.finish_event.synchronize()
            for node_id in ack.node_ids:
                self.ongoing_write_through.pop(node_id).locks -= not self.is_write_back
        del queue[:finish_count]

    def loading_check(self, finish_count: int | None = None) -> None:
        queue = self.cache_controller.ack_load_queue
        for ack in queue[:finish_count]:
            for node_id in ack.node_ids:
                self.ongoing_load_back.pop(node_id).locks -= 1
        del queue[:finish_count]

    # -- storage

    def prefetch_from_storage(self, request: CacheRequestHandle, last_host_node_id, new_input_tokens, last_hash=None):
        if not self.enable_storage or len(new_input_tokens) < 256:
            return None
        operation = PrefetchOperation(len(self.ongoing_prefetch) + 7, request, list(new_input_tokens))
        operation.stats_requested_tokens = len(new_input_tokens)
        self.ongoing_prefetch[request] = _OngoingPrefetch(last_host_node_id, new_input_tokens, None, operation)
        return True

    def check_prefetch_progress(self, request: CacheRequestHandle) -> bool:
        info = self.ongoing_prefetch.get(request)
        if info is None:
            return True
        if info.operation.host_indices is None:
            self.revoke_pending_prefetch(request)
        else:
            self._handle_prefetch_result(info.operation)
        return True

    def _handle_prefetch_result(self, operation: PrefetchOperation) -> None:
        del self.ongoing_prefetch[operation.handle]
        self.prefetch_loaded_tokens_by_reqid[operation.handle] = operation.completed_tokens - 1

    def revoke_pending_prefetch(self, request: CacheRequestHandle) -> None:
        self.ongoing_prefetch.pop(request, None)

    def pop_prefetch_loaded_tokens(self, request: CacheRequestHandle) -> int:
        return self.prefetch_loaded_tokens_by_reqid.pop(request, 0)

    def pop_prefetch_loaded_span(self, request: CacheRequestHandle):
        return self.prefetch_loaded_tokens_by_reqid.pop(request, 0), None

    def write_backup_storage(self, node_id) -> None:
        node = self.tree_core.nodes[node_id]
        self.ongoing_backup[self.cache_controller.write_storage(node.host, list(node.key))] = node

    def _drain_storage_control_queues_impl(
        self, n_storage_hit, n_ack_prefetch, n_backup, n_release, extra_release_counts, log_metrics
    ) -> None:
        for operation in list(self.ongoing_backup)[:n_backup]:
            del self.ongoing_backup[operation]

    def attach_storage_backend(self, storage_backend: str, served_model_name=None) -> tuple[bool, str]:
        self.enable_storage = storage_backend == "file"
        return self.enable_storage, "attached" if self.enable_storage else "unknown backend"

    def detach_storage_backend(self) -> tuple[bool, str]:
        self.enable_storage = False
        return True, "detached"
