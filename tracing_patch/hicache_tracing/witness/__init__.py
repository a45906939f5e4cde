"""The content witness: are the rows that came back from the host the rows that went there?

When slots are backed up, a 64-bit signature of each slot's KV rows (all witnessed layers, K and V) is taken from the
device rows and kept in a table indexed by host slot. After a load-back the loaded device rows are signed again and
compared with the table.

The signature is the NH hash: the row is read as 64-bit words; each word's two halves are added, modulo 2**32, to the
two halves of a random key, and the 64-bit products of these sums are added up modulo 2**64. Keys are drawn once per
process from the operating system's randomness and differ for every layer, for K and V, and for every position, so
swapped rows, layers or halves are seen. Two different rows collide with probability at most 2**-32.

A signature belongs to a *host slot*. A slot that got its rows from anywhere but a backup that we saw (from storage,
or before we attached) is counted as unseen, never as intact.

torch and triton are imported only in this package, and only once a witness is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hicache_tracing.records import ContentMode
from hicache_tracing.witness.pools import UnwitnessableError, kv_buffers

__all__ = ["ContentWitness", "UnwitnessableError", "make_witness"]


class ContentWitness(Protocol):
    """What the seams ask of a witness. Nothing here may wait for a device."""

    def backed_up(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        """A device-to-host transfer was handed to the device: sign its rows."""

    def backup_finished(self, transfer: int) -> None:
        """The engine saw it finished and may now reuse the device rows."""

    def loaded(self, transfer: int, operations: Sequence[Any], ack: Any) -> None:
        """A host-to-device transfer was handed to the device: compare its rows once it has finished."""

    def load_finished(self, transfer: int) -> None:
        """The engine saw it finished and no longer locks the loaded rows for it."""

    def left_device(self) -> None:
        """Rows left the device: a comparison still under way can no longer be trusted."""

    def overwritten(self, host_indices: Any) -> None:
        """Host slots got rows from elsewhere (storage): their signatures are void."""

    def report(self, write: Callable[..., None]) -> None:
        """Record the comparisons that are ready (kind CONTENT)."""

    def forget(self) -> None:
        """The cache was reset: no signature holds any more."""


def make_witness(controller: Any, mode: str) -> ContentWitness:
    """The witness for a controller's pools, ``mode`` sampled (a few layers) or full.

    Raises UnwitnessableError with the reason where there can be none: unknown pools, no triton on a GPU.
    """
    buffers = kv_buffers(controller.mem_pool_device, ContentMode[mode.upper()])
    slots = int(controller.mem_pool_host.size)
    if buffers[0].device.type == "cuda":
        from hicache_tracing.witness.cuda import CudaWitness

        return CudaWitness(buffers, slots, ContentMode[mode.upper()])
    if buffers[0].device.type == "cpu":
        from hicache_tracing.witness.cpu import CpuWitness

        return CpuWitness(buffers, slots, ContentMode[mode.upper()])
    raise UnwitnessableError(f"rows on {buffers[0].device.type}")
