"""Faults that a test switches on and off while the engine runs: each is on while a file of its name exists.

$FAULT_SWITCHES/damage   rows copied from host to device become zero
$FAULT_SWITCHES/slow     every prefill takes half a second longer
"""

import os
import time

from cpu_engine.after_import import after_import  # the demo engine's shims are on the path before this folder

SWITCHES = os.environ["FAULT_SWITCHES"]
SLOW_SECONDS = 0.5


def on(name):
    return os.path.exists(os.path.join(SWITCHES, name))


def damage(module):
    pool = module.MHATokenToKVPoolHost
    copy, load = module.transfer_kv_direct, pool.load_to_device_per_layer
    loading = False  # a backup copies too, in the other direction

    def load_to_device_per_layer(self, *args, **kwargs):
        nonlocal loading
        loading = True
        try:
            return load(self, *args, **kwargs)
        finally:
            loading = False

    def transfer_kv_direct(src_layers, dst_layers, src_indices, dst_indices, page_size):
        copy(src_layers, dst_layers, src_indices, dst_indices, page_size)
        if loading and on("damage"):
            for destination in dst_layers:
                destination[dst_indices] = 0

    module.transfer_kv_direct = transfer_kv_direct
    pool.load_to_device_per_layer = load_to_device_per_layer


def slow(module):
    run_batch = module.Scheduler.run_batch

    def slower(self, batch, *args, **kwargs):
        if on("slow") and batch.forward_mode.is_extend():
            time.sleep(SLOW_SECONDS)
        return run_batch(self, batch, *args, **kwargs)

    module.Scheduler.run_batch = slower


after_import("sglang.srt.mem_cache.pool_host.mha", damage)
after_import("sglang.srt.managers.scheduler", slow)
