from __future__ import annotations

from engine_parts import CopyOperation

from sglang.srt.managers.cache_controller import HiCacheController


class HybridCacheController(HiCacheController):
    def reset(self):
        super().reset()

    def write(self, device_indices, priority=None, node_id=-1, extra_pools=None, flush=True, start_owner=None):
        host_indices = self.mem_pool_host.alloc(len(device_indices))
        if host_indices is None:
            return None
        self.write_queue.append(CopyOperation(host_indices, device_indices, node_id, priority))
        if flush:
            self.start_writing()
        return host_indices

    def load(
        self, host_indices, priority=None, node_id=-1, extra_pools=None, *, device_indices=None, anchor_indices=None
    ):
        device_indices = self.mem_pool_device_allocator.alloc(len(host_indices))
        if device_indices is None:
            return None
        self.load_queue.append(CopyOperation(host_indices, device_indices, node_id, priority))
        return device_indices

    def write_storage(self, host_indices, token_ids, hash_value=None, prefix_keys=None, extra_pools=None):
        self.backup_ids += 1
        return self.backup_ids
