"""What both fake engines are made of: index tensors, memory pools, events, requests' common facts."""

from __future__ import annotations

from enum import Enum, auto
from types import SimpleNamespace

import numpy as np


class Slots(np.ndarray):
    """As much of a CPU tensor of int64 as the plugin touches."""

    is_cuda = False
    is_cpu = True

    def __new__(cls, values):
        return np.asarray(values, dtype=np.int64).view(cls)

    def numel(self):
        return self.size

    def nonzero(self):
        return np.argwhere(np.asarray(self)).view(Slots)

    def new_empty(self, shape):
        return np.empty(shape, dtype=np.int64).view(Slots)

    def int(self):
        return self.astype(np.int32)

    def numpy(self):
        return np.asarray(self)


class Pool:
    """Slots 0 to size - 1, the lowest free ones first."""

    def __init__(self, size, size_per_token=512):
        self.size, self.size_per_token = size, size_per_token
        self.clear()

    def clear(self):
        self.free_slots = list(range(self.size))

    def available_size(self):
        return len(self.free_slots)

    def alloc(self, count):
        if count > len(self.free_slots):
            return None
        taken, self.free_slots = self.free_slots[:count], self.free_slots[count:]
        return Slots(taken)

    def free(self, slots):
        self.free_slots = sorted([*self.free_slots, *map(int, slots)])


class Event:
    """A device event: it happens when the test lets the copies finish."""

    clock = 0.0

    def __init__(self):
        self.at = None

    def record(self):
        Event.clock += 1.5
        self.at = Event.clock

    def query(self):
        return self.at is not None

    def synchronize(self):
        if self.at is None:
            self.record()

    def elapsed_time(self, other):
        if self.at is None or other.at is None:
            raise RuntimeError("the event has not happened: this would wait for the device")
        return other.at - self.at


class ForwardMode(Enum):
    EXTEND = auto()
    DECODE = auto()
    MIXED = auto()

    def is_extend(self):
        return self is not ForwardMode.DECODE

    def is_decode(self):
        return self is ForwardMode.DECODE


class FINISH_LENGTH:  # noqa: N801 - the engine's name
    pass


class FINISH_ABORT:  # noqa: N801 - the engine's name
    pass


class CopyOperation:
    def __init__(self, host_indices, device_indices, node_id, priority=None):
        self.host_indices, self.device_indices, self.node_ids = host_indices, device_indices, [node_id]
        self.priority = priority


class BaseReq:
    """What a request carries in both releases."""

    def __init__(self, rid, origin_input_ids, max_new_tokens=1):
        self.rid = rid
        self.origin_input_ids = list(origin_input_ids)
        self.output_ids = []
        self.sampling_params = SimpleNamespace(max_new_tokens=max_new_tokens)
        self.priority = None
        self.last_node = None
        self.host_hit_length = 0
        self.storage_hit_length = 0
        self.finished_reason = None
        self.is_retracted = self.retracted_stain = False
        self.retraction_count = 0
        self.already_computed = 0
        self.inflight_middle_chunks = 0
        self.holds_kv = False
        self.cached_tokens = 0
        self.cached_tokens_device = self.cached_tokens_host = self.cached_tokens_storage = 0
        self._cache_breakdown_computed = False
        self.time_stats = SimpleNamespace(wait_queue_entry_time=1.25, forward_entry_time=0.0)

    def finished(self):
        return self.finished_reason is not None

    def check_finished(self):
        if len(self.output_ids) >= self.sampling_params.max_new_tokens:
            self.finished_reason = FINISH_LENGTH()

    def count_cached(self, prefix, seq_len):
        """The one place where both releases account for a hit."""
        if not self.retracted_stain:
            self.cached_tokens += prefix - self.already_computed
            if not self._cache_breakdown_computed:
                host = min(self.host_hit_length, prefix)
                self.cached_tokens_storage = min(host, self.storage_hit_length)
                self.cached_tokens_host = host - self.cached_tokens_storage
                self.cached_tokens_device = prefix - host
                self._cache_breakdown_computed = True
            self.already_computed = seq_len
        self.is_retracted = False


def longest_prefix(keys, prompt):
    """The longest of the keys that begins the prompt and leaves a token to compute, or None."""
    fitting = [key for key in keys if len(key) < len(prompt) and tuple(prompt[: len(key)]) == key]
    return max(fitting, key=len, default=None)
