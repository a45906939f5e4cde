from __future__ import annotations

from typing import NamedTuple

from engine_parts import CopyOperation, Event, Pool


class HiCacheAck(NamedTuple):
    start_event: Event
    finish_event: Event
    node_ids: list
    num_tokens: int = 0
    timing_enabled: bool = False
    num_tokens_by_pool: dict | None = None
    num_bytes: int = 0


class HiCacheController:
    write_policy = "write_through"

    def __init__(self, device_pool: Pool, host_pool: Pool):
        self.mem_pool_device = self.mem_pool_device_allocator = device_pool
        self.mem_pool_host = host_pool
        self.write_queue, self.load_queue = [], []
        self.ack_write_queue, self.ack_load_queue = [], []
        self.backup_ids = 0

    def reset(self):
        for queue in (self.write_queue, self.load_queue, self.ack_write_queue, self.ack_load_queue):
            queue.clear()

    def write(self, device_indices, priority=None, node_id=-1, extra_pools=None):
        host_indices = self.mem_pool_host.alloc(len(device_indices))
        if host_indices is None:
            return None
        self.write_queue.append(CopyOperation(host_indices, device_indices, node_id, priority))
        self.start_writing()
        return host_indices

    def start_writing(self):
        if self.write_queue:
            self.ack_write_queue.append(self._move(self.write_queue))

    def load(self, host_indices, priority=None, node_id=-1):
        device_indices = self.mem_pool_device_allocator.alloc(len(host_indices))
        if device_indices is None:
            return None
        self.load_queue.append(CopyOperation(host_indices, device_indices, node_id, priority))
        return device_indices

    def start_loading(self):
        if not self.load_queue:
            return -1
        self.ack_load_queue.append(self._move(self.load_queue))
        return len(self.ack_load_queue) % 3

    def evict_host(self, host_indices, backup_only=True):
        self.mem_pool_host.free(host_indices)
        return len(host_indices)

    def write_storage(self, host_indices, token_ids, hash_value=None, prefix_keys=None):
        self.backup_ids += 1
        return self.backup_ids

    def _move(self, queue):
        operations = list(queue)
        queue.clear()
        tokens = sum(len(operation.device_indices) for operation in operations)
        start, finish = Event(), Event()
        start.record()
        return HiCacheAck(
            start,
            finish,
            [node for operation in operations for node in operation.node_ids],
            tokens,
            True,
            {"kv": tokens},
            tokens * self.mem_pool_host.size_per_token,
        )
