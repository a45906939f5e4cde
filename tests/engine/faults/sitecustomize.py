"""Faults on purpose, for tests: on the engine's PYTHONPATH, each switched on by a variable.

FAULT_LOAD_BACK=zero       rows copied from host to device become zero
FAULT_LOAD_BACK=one_row    only the last row of each copy, only in the first layer
FAULT_LOSE=KIND,...        records of these kinds (records.Kind) are lost: their place in the ring is wiped
FAULT_PART=PART            record, clock or witness: that part of ours raises at every call, once the engine stands
FAULT_HOLD=FILE            while there is this file, no event that was recorded meanwhile is told to have happened
FAULT_SEAM=NAME or all     our own step before that patched engine function raises at every call
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

from cpu_engine.after_import import after_import  # the demo engine's shims are on the path before this folder


def damage_load_back(module, how):
    pool = getattr(module, "MHATokenToKVPoolHost", None)
    if pool is None:
        return
    copy, load = module.transfer_kv_direct, pool.load_to_device_per_layer
    layer = None  # of the load that is going on; a backup copies in the other direction

    def load_to_device_per_layer(self, device_pool, host_indices, device_indices, layer_id, *args, **kwargs):
        nonlocal layer
        layer = layer_id
        try:
            return load(self, device_pool, host_indices, device_indices, layer_id, *args, **kwargs)
        finally:
            layer = None

    def transfer_kv_direct(src_layers, dst_layers, src_indices, dst_indices, page_size):
        copy(src_layers, dst_layers, src_indices, dst_indices, page_size)
        if layer is None or (how == "one_row" and layer != 0):
            return
        rows = dst_indices[-1:] if how == "one_row" else dst_indices
        for destination in dst_layers:
            destination[rows] = 0

    module.transfer_kv_direct = transfer_kv_direct
    pool.load_to_device_per_layer = load_to_device_per_layer


def lose_records(module, kinds):
    make = module._writer

    def lossy_writer(ring, capacity, head, dropped):
        write = make(ring, capacity, head, dropped)

        def lossy(kind, rid, *numbers, extra=b""):
            start = module.HEADER_SIZE + head[0] % capacity * module.SLOT_SIZE
            write(kind, rid, *numbers, extra=extra)
            if module.Kind(kind).name in kinds:
                ring[start : start + module.SLOT_SIZE] = bytes(module.SLOT_SIZE)

        return lossy

    module._writer = lossy_writer


def break_seam(module, name):
    around = module.around

    def raising(args, kwargs):
        raise RuntimeError("a fault on purpose")

    def sabotaged(call, seam, before, *others):
        return around(call, seam, raising if name in (seam.name, "all") else before, *others)

    module.around = sabotaged


def fails(*_args, **_kwargs):
    raise RuntimeError("a fault on purpose")


def break_part(part):
    """Each in the module that it lives in, so that whoever imports it from there gets the broken one."""
    if part == "record":
        after_import("hicache_tracing.recorder", lambda module: setattr(module, "_writer", lambda *_: fails))
    elif part == "clock":
        after_import("hicache_tracing.recorder", break_clock)
    elif part == "witness":
        after_import("hicache_tracing.witness.cpu", break_witness)


def break_clock(module):
    clock = module.monotonic_ns
    answers = iter([clock()])  # the ring that opens takes the time once
    module.monotonic_ns = lambda: next(answers, None) or fails()


def break_witness(module):
    for name in ("backed_up", "backup_finished", "loaded", "load_finished", "left_device", "report", "forget"):
        setattr(module.CpuWitness, name, fails)


def hold_events(file):
    from cpu_engine.torch_cpu import Event

    take_time = Event.record

    def record(self, stream=None):
        take_time(self, stream)
        self.held = os.path.exists(file)

    Event.record = record
    Event.query = lambda self: not (getattr(self, "held", False) and os.path.exists(file))


if part := os.environ.get("FAULT_PART"):
    break_part(part)
if file := os.environ.get("FAULT_HOLD"):
    hold_events(file)
if how := os.environ.get("FAULT_LOAD_BACK"):
    for name in ("pool_host.mha", "memory_pool_host"):
        after_import(f"sglang.srt.mem_cache.{name}", lambda module: damage_load_back(module, how))
if kinds := os.environ.get("FAULT_LOSE"):
    after_import("hicache_tracing.recorder", lambda module: lose_records(module, kinds.split(",")))
if seam := os.environ.get("FAULT_SEAM"):
    after_import("hicache_tracing.guard", lambda module: break_seam(module, seam))

# The one behind, which this one hides, attaches the plugin where the engine has no plugin loader. It comes last: what
# it imports is to be broken by then.
folders = [os.path.abspath(folder) for folder in sys.path]
behind = folders[folders.index(os.path.dirname(os.path.abspath(__file__))) + 1 :]
if spec := PathFinder.find_spec("sitecustomize", behind):
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
