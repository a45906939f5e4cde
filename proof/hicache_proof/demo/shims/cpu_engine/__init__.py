"""What SGLang's published wheel lacks to run, HiCache included, on a machine without a GPU.

Nothing of SGLang's is edited. Packages that it imports but that need CUDA get stand-ins; six functions get a CPU form
when the engine has imported the module that holds them. Each is looked for by name, so one text serves every release.
"""

from cpu_engine import host_pool, paged, stand_ins, torch_cpu
from cpu_engine.after_import import after_import


def install() -> None:
    stand_ins.install()
    after_import("torch.cpu", torch_cpu.adapt)
    for name in ("pool_host.common", "pool_host.mha", "memory_pool_host"):
        after_import(f"sglang.srt.mem_cache.{name}", host_pool.adapt)
    for name in ("allocator", "allocator.paged"):
        after_import(f"sglang.srt.mem_cache.{name}", paged.adapt)
