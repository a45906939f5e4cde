"""What the content witness costs on a GPU, and whether it sees what it must see. Needs torch with CUDA and triton.

    python benchmarks/content_kernel.py

Shape: Qwen2-7B (28 layers, 4 KV heads of 128, bf16: 57,344 bytes of KV a token), 65,536 slots, operations of 32,000
tokens (1.8 GB). GPU times are medians over CUDA events, scheduler times medians of the calls that a seam makes; those
are to stay below 60 us, and sampled mode below a tenth of full. With cold caches: 256 MiB are read before each call, of
operations as small as those that were measured in a running engine. Where kernels are not launched directly, Triton
launches them, which takes several times as long.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from types import SimpleNamespace

import form
import numpy as np
import torch

from hicache_tracing.records import ContentMode
from hicache_tracing.witness.cpu import CpuWitness
from hicache_tracing.witness.cuda import CudaWitness

AHEAD_CYCLES = 2_000_000  # a millisecond
LAYERS, HEADS, DIM, SLOTS, TOKENS, HOST = 28, 4, 128, 65_536, 32_000, 196_608
SWEPT_MIB, FEWER_TOKENS = 256, 4032


def pool(device: str, layers: int = LAYERS, slots: int = SLOTS) -> list[torch.Tensor]:
    make = lambda: torch.randn(slots, HEADS, DIM, device=device, dtype=torch.bfloat16)  # noqa: E731
    return [make() for _ in range(2 * layers)]


def event() -> torch.cuda.Event:
    marker = torch.cuda.Event(enable_timing=True)
    marker.record()
    return marker


def ack() -> SimpleNamespace:
    """As the engine has one of each transfer: everything launched so far is done before it."""
    return SimpleNamespace(start_event=event(), finish_event=event())


def gpu_ms(run: object, repeats: int = 20) -> float:
    """The GPU is kept busy while the work is launched: else what the launch takes the processor would be measured."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        torch.cuda._sleep(AHEAD_CYCLES)
        start = event()
        run()  # type: ignore[operator]
        stop = event()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def operation(rows: torch.Tensor, host: torch.Tensor) -> SimpleNamespace:
    return SimpleNamespace(host_indices=host, device_indices=rows)


def cost(mode: ContentMode, buffers: list[torch.Tensor]) -> dict[str, float]:
    from hicache_tracing.witness import pools

    layers = SimpleNamespace(k_buffer=buffers[:LAYERS], v_buffer=buffers[LAYERS:])
    witness = CudaWitness(pools.kv_buffers(layers, mode), HOST, mode)
    rows = torch.randperm(SLOTS - 64, device="cuda")[:TOKENS] + 64
    host = torch.arange(1000, 1000 + TOKENS)
    scattered = torch.randperm(HOST)[:TOKENS]
    slots, here = scattered.pin_memory(), torch.cuda.current_stream()
    told = torch.zeros(2, dtype=torch.int64, pin_memory=True)
    sign = gpu_ms(lambda: witness.kernels.sign(rows, slots, TOKENS, told, 1, here))
    compare = gpu_ms(lambda: witness.kernels.compare(rows, slots, TOKENS, told, here))
    torch.cuda.synchronize()
    calls: dict[str, list[float]] = {"backed_up": [], "loaded": [], "loaded_scattered": [], "report": []}
    for transfer in range(60):
        fences = ack()
        for name in ("backed_up", "loaded", "loaded_scattered"):
            where = scattered if name.endswith("scattered") else host
            began = time.perf_counter_ns()
            getattr(witness, name.removesuffix("_scattered"))(transfer, [operation(rows, where)], fences)
            calls[name].append((time.perf_counter_ns() - began) / 1e3)
        torch.cuda.synchronize()
        witness.backup_finished(transfer)
        began = time.perf_counter_ns()
        witness.report(lambda *_: None)
        calls["report"].append((time.perf_counter_ns() - began) / 1e3)
    return {
        "launched_directly": witness.kernels.direct,
        "sign_gpu_ms": sign,
        "compare_gpu_ms": compare,
        **{f"{name}_scheduler_us": statistics.median(times[10:]) for name, times in calls.items()},
        **{f"{name}_cold_us": us for name, us in cold(witness, rows).items()},
    }


def cold(witness: CudaWitness, rows: torch.Tensor) -> dict[str, float]:
    """Microseconds of a call that finds neither its code nor its data in the processor's caches, medians."""
    other = np.ones(SWEPT_MIB << 17)
    calls: dict[str, list[float]] = {"backed_up": [], "loaded": []}
    for transfer in range(60):
        for name, times in calls.items():
            one = operation(rows[:FEWER_TOKENS].clone(), torch.arange(1000, 1000 + FEWER_TOKENS))
            fences = ack()
            call = getattr(witness, name)
            other.sum()
            began = time.perf_counter_ns()
            call(transfer, [one], fences)
            times.append((time.perf_counter_ns() - began) / 1e3)
            torch.cuda.synchronize()
        witness.backup_finished(transfer)
        witness.report(lambda *_: None)
    return {name: statistics.median(times[10:]) for name, times in calls.items()}


def seen(buffers: list[torch.Tensor]) -> dict[str, object]:
    """Planted damages, each on a copy of the rows, and what the witness says: (mismatched, unseen)."""
    witness = CudaWitness(buffers, HOST, ContentMode.FULL)
    rows, host = torch.arange(100, 1100, device="cuda"), torch.arange(5000, 6000)

    def result() -> tuple[int, int]:
        witness.loaded(1, [operation(rows, host)], ack())
        torch.cuda.synchronize()
        told: list[tuple[int, ...]] = []
        witness.report(lambda *record: told.append(record))
        return told[0][4], told[0][5]

    found: dict[str, object] = {"never backed up": result()}
    witness.backed_up(1, [operation(rows, host)], ack())
    torch.cuda.synchronize()
    witness.backup_finished(1)
    found["intact"] = result()
    for name, damage in {
        "one bit": lambda: buffers[3].view(torch.int16)[150, 2, 7].bitwise_xor_(1),
        "zeroed row": lambda: buffers[9][160].zero_(),
        "two rows swapped": lambda: buffers[0][[170, 171]].copy_(buffers[0][[171, 170]].clone()),
        "halves of a row swapped": lambda: buffers[2][180].copy_(buffers[2][180].flip(0).clone()),
    }.items():
        before = [buffer[100:1100].clone() for buffer in buffers]
        if name == "two rows swapped":
            for buffer in buffers:
                buffer[[170, 171]] = buffer[[171, 170]]
        else:
            damage()
        found[name] = result()
        for buffer, kept in zip(buffers, before, strict=True):
            buffer[100:1100] = kept
    first, second = buffers[4][190].clone(), buffers[5][190].clone()
    buffers[4][190], buffers[5][190] = second, first
    found["layers exchanged"] = result()
    buffers[4][190], buffers[5][190] = first, second
    found["intact again"] = result()
    return found


def recompiles() -> int:
    """Kernels compiled after the warm-up by operations of every size and alignment. Must be 0."""
    from hicache_tracing.witness import kernels

    def compiled() -> int:
        return sum(len(cache[0]) for fn in (kernels._sign, kernels._compare) for cache in fn.device_caches.values())

    device = pool("cuda", layers=2, slots=4096)
    witness = CudaWitness(device, 4096, ContentMode.FULL)
    before = compiled()
    rows = torch.arange(4096, device="cuda")
    for count in (1, 2, 7, 16, 64, 100, 1000, 2048):
        for start in (0, 1, 3, 16):
            for host in (torch.arange(start, start + count), torch.randperm(4096)[:count]):
                one = operation(rows[start : start + count], host)
                witness.backed_up(1, [one], ack())
                witness.loaded(1, [one], ack())
    torch.cuda.synchronize()
    return compiled() - before


def agrees_with_cpu() -> bool:
    device = pool("cuda", layers=2, slots=512)
    cuda = CudaWitness(device, 512, ContentMode.FULL)
    cpu = CpuWitness([buffer.cpu() for buffer in device], 512, ContentMode.FULL)
    width = cpu._keys[0].numel()
    cpu._keys = [cuda.keys[i * width : (i + 1) * width].cpu() for i in range(len(device))]
    rows = torch.randperm(512)[:301]
    told = torch.zeros(1, dtype=torch.int64, pin_memory=True)
    slots = torch.arange(301, device="cuda")
    cuda.kernels.sign(rows.cuda(), slots, 301, told, 7, torch.cuda.current_stream())
    torch.cuda.synchronize()
    return int(told) == 7 and bool(torch.equal(cuda.signatures[:301].cpu(), cpu.sign(rows)))


def main() -> int:
    given = form.options(__doc__).parse_args()
    bench = form.Bench("content_kernel", given.history, gpu=torch.cuda.get_device_name())
    buffers = pool("cuda")
    size = TOKENS * 2 * LAYERS * HEADS * DIM * 2
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    copy = gpu_ms(lambda: target.copy_(source))
    read = copy / 2  # a copy reads and writes the bytes
    figures = {
        "device": torch.cuda.get_device_name(),
        "bytes": size,
        "copy_gb_per_s": 2 * size / copy / 1e6,
        "one_read_ms": read,
        "full": cost(ContentMode.FULL, buffers),
        "sampled": cost(ContentMode.SAMPLED, buffers),
        "agrees_with_cpu": agrees_with_cpu(),
        "recompiles": recompiles(),
        "seen": seen(buffers),
    }
    print(json.dumps(figures, indent=1))
    add(bench, read, figures["full"], figures["sampled"])  # type: ignore[arg-type]
    return bench.end()


def add(bench: form.Bench, read: float, full: dict[str, float], sampled: dict[str, float]) -> None:
    bench.add("signing, full", full["sign_gpu_ms"], "ms")
    bench.add("comparing, full", full["compare_gpu_ms"], "ms")
    bench.add("one read of the bytes at the measured copy bandwidth", read, "ms")
    bench.add("full over one read", full["compare_gpu_ms"] / read, "times", form.at_most(1.5))
    bench.add("comparing, sampled", sampled["compare_gpu_ms"], "ms")
    share = 100 * sampled["compare_gpu_ms"] / full["compare_gpu_ms"]
    bench.add("sampled over full", share, "%", form.at_most(10))
    calls = [us for cost in (full, sampled) for name, us in cost.items() if name.endswith("_scheduler_us")]
    bench.add("scheduler's thread, the cheapest operation", min(calls), "µs an operation", form.at_most(60))
    bench.add("scheduler's thread, the dearest operation", max(calls), "µs an operation", form.at_most(60))
    for name, call in (("a backup", "backed_up"), ("a comparison", "loaded")):
        us = max(cost[f"{call}_cold_us"] for cost in (full, sampled))
        bench.add(f"scheduler's thread, {name} of 4,032 tokens, cold caches", us, "µs an operation")
    direct = sum(cost["launched_directly"] for cost in (full, sampled))
    bench.add("modes in which kernels are launched directly", direct, "of 2", form.at_least(2))


if __name__ == "__main__":
    sys.exit(main())
