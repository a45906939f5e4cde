"""The content witness on a GPU, whose order of events a recording stand-in for torch shows: no GPU is needed.

What our stream reads must be there before it reads it: a row number that is not would be an illegal access, and that
ends the engine.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from hicache_tracing.records import ContentMode
from hicache_tracing.witness import cuda
from hicache_tracing.witness.cuda import CudaWitness


class Tensor:
    """Numbers on a device or in host memory."""

    dtype = "int64"

    def __init__(self, log, numbers, *, is_cuda: bool) -> None:
        self.log, self.numbers, self.is_cuda = log, list(numbers), is_cuda

    def numel(self):
        return len(self.numbers)

    def numpy(self):
        return self.numbers

    def __getitem__(self, part):
        return Tensor(self.log, self.numbers[part], is_cuda=self.is_cuda)

    def record_stream(self, stream):
        self.log.append(f"kept for {stream.name}")

    def to(self, where, *, non_blocking=False):
        if where == "int64":
            self.log.append("widened")
            return Tensor(self.log, self.numbers, is_cuda=self.is_cuda)
        assert non_blocking
        self.log.append("copied to the device")
        return Tensor(self.log, self.numbers, is_cuda=True)


class Stream:
    def __init__(self, log, name) -> None:
        self.log, self.name, self.idle = log, name, True

    def wait_stream(self, other):
        self.log.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event):
        self.log.append(f"{self.name} waits for {event}")

    def query(self):
        return self.idle


class Torch:
    """The little of torch that the witness uses. A join is a kernel on the engine's stream if its parts are there."""

    int64 = "int64"

    def __init__(self, log) -> None:
        self.log = log
        self.events = 0
        self.cuda = SimpleNamespace(
            stream=self._on, current_stream=lambda _device: Stream(log, "engine"), Event=self._event
        )

    def _event(self):
        self.events += 1
        event = SimpleNamespace()
        event.record = lambda stream: setattr(event, "query", lambda: stream.idle)
        return event

    @contextmanager
    def _on(self, _stream):
        yield

    def cat(self, parts):
        if parts[0].is_cuda:
            self.log.append("engine joins")
        return Tensor(self.log, [number for part in parts for number in part.numbers], is_cuda=parts[0].is_cuda)

    def empty(self, count, *, dtype, pin_memory):
        assert dtype == self.int64
        assert pin_memory
        return Tensor(self.log, [0] * count, is_cuda=False)


@pytest.fixture
def log():
    return []


@pytest.fixture
def witness(log):
    made = CudaWitness.__new__(CudaWitness)
    made._torch, made._stream, made._device = Torch(log), Stream(log, "ours"), "cuda"
    made._staging, made._staged = Tensor(log, [0] * 100, is_cuda=False), 0
    made._staging_numbers, made._events = made._staging.numbers, []
    made._signing, made._pending = {}, deque()
    made._copies, made._copy, made._counts = ["the copy"] * 300, 0, None
    made._mode, made._layers = ContentMode.FULL, 4
    made._seen = SimpleNamespace(zero_=lambda: None, index_fill_=lambda *_: log.append("unseen"))
    made.kernels = SimpleNamespace(
        sign=lambda rows, slots, stream: log.append(f"signs {rows.numel()}"),
        compare=lambda rows, slots, told, stream: log.append(f"compares {rows.numel()} and tells {told}"),
    )
    return made


@pytest.fixture
def operation(log):
    return lambda count: SimpleNamespace(
        host_indices=Tensor(log, range(count), is_cuda=False), device_indices=Tensor(log, range(count), is_cuda=True)
    )


ACK = SimpleNamespace(start_event="the start", finish_event="the finish")


@pytest.mark.parametrize(
    ("step", "event", "kernel"),
    [("backed_up", "the start", "signs 5"), ("loaded", "the finish", "compares 5 and tells the copy")],
)
class TestTheRowNumbers:
    def test_of_several_operations_are_joined_before_our_stream_reads_them(
        self, witness, operation, log, step, event, kernel
    ):
        getattr(witness, step)(1, [operation(2), operation(3)], ACK)
        wanted = ["engine joins", "ours waits for engine", f"ours waits for {event}", "kept for ours", kernel]
        assert [line for line in log if line in wanted] == wanted

    def test_of_one_are_there_when_its_transfer_begins(self, witness, operation, log, step, event, kernel):
        getattr(witness, step)(1, [operation(5)], ACK)
        assert log == [f"ours waits for {event}", "kept for ours", kernel]

    def test_of_another_width_are_widened_on_our_stream(self, witness, operation, log, step, event, kernel):
        narrow = operation(5)
        narrow.device_indices.dtype = "int32"
        getattr(witness, step)(1, [narrow], ACK)
        assert log[:4] == [f"ours waits for {event}", "kept for ours", "widened", kernel]


class TestTheStagedSlots:
    def test_are_not_written_over_while_our_stream_may_still_read_them(self, monkeypatch, witness, operation, log):
        """Also not after a reset, which forgets who was to read them."""
        monkeypatch.setattr(cuda, "STAGED", 100)
        witness.backed_up(1, [operation(80)], ACK)
        witness.forget()
        witness._stream.idle = False
        witness.backed_up(2, [operation(80)], ACK)
        assert witness._staged == 80
        assert "copied to the device" in log, "a copy of its own, which lives as long as it is read"
        witness._stream.idle = True
        witness.backed_up(3, [operation(30)], ACK)
        assert witness._staged == 30


def test_an_event_is_used_again_once_nobody_asks_it_any_more(witness, operation):
    for transfer in range(5):
        witness.backed_up(transfer, [operation(5)], ACK)
        witness.backup_finished(transfer)
    assert witness._torch.events == 1
    witness.backed_up(5, [operation(5)], ACK)
    witness.backed_up(6, [operation(5)], ACK)
    assert witness._torch.events == 2, "each of those that are still to be asked has its own"
