"""The content witness on a GPU, whose order of events a recording stand-in for torch shows: no GPU is needed.

What our stream reads must be there before it reads it: a row number that is not would be an illegal access, and that
ends the engine.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections import deque
from contextlib import contextmanager
from ctypes import addressof, c_int64
from types import SimpleNamespace

import pytest

from hicache_tracing.records import ContentMode
from hicache_tracing.witness import cuda
from hicache_tracing.witness.cuda import CudaWitness

RING = 100


class Tensor:
    """Numbers on a device or in host memory."""

    dtype = "int64"
    contiguous_ = True

    def __init__(self, log, numbers, *, is_cuda: bool) -> None:
        self.log, self.is_cuda = log, is_cuda
        self.memory = (c_int64 * len(numbers))(*numbers)

    def numel(self):
        return len(self.memory)

    def data_ptr(self):
        return addressof(self.memory)

    def is_contiguous(self):
        return self.contiguous_

    def numpy(self):
        return self.memory

    def __getitem__(self, part):
        return Tensor(self.log, self.memory[part], is_cuda=self.is_cuda)

    def zero_(self): ...

    def index_fill_(self, _dim, slots, _value):
        self.log.append(f"unsees {list(slots.memory)}")

    def record_stream(self, stream):
        self.log.append(f"kept for {stream.name}")

    def contiguous(self):
        return self

    def to(self, where, *, non_blocking=False):
        if where == "cuda" and not non_blocking:  # before the engine serves
            return self
        if where == "int64":
            self.log.append("widened")
            return Tensor(self.log, self.memory, is_cuda=self.is_cuda)
        assert non_blocking
        self.log.append("copied to the device")
        return Tensor(self.log, self.memory, is_cuda=True)


class Stream:
    def __init__(self, log, name) -> None:
        self.log, self.name, self.idle = log, name, True
        self.asked = 0

    def wait_stream(self, other):
        self.log.append(f"{self.name} waits for {other.name}")

    def query(self):
        self.asked += 1
        return self.idle


class Event:
    """One of the engine's."""

    def __init__(self, log, name) -> None:
        self.log, self.name = log, name

    def wait(self, stream):
        self.log.append(f"{stream.name} waits for {self.name}")


class Torch:
    """The little of torch that the witness uses. A join is a kernel on the engine's stream if its parts are there."""

    int64, int8 = "int64", "int8"

    def __init__(self, log) -> None:
        self.log = log
        self.ours = Stream(log, "ours")
        self.cuda = SimpleNamespace(
            Stream=lambda _device: self.ours, stream=self._on, current_stream=lambda _device: Stream(log, "engine")
        )

    @contextmanager
    def _on(self, _stream):
        yield

    def cat(self, parts):
        if parts[0].is_cuda:
            self.log.append("engine joins")
        return Tensor(self.log, [number for part in parts for number in part.memory], is_cuda=parts[0].is_cuda)

    def tensor(self, numbers, *, dtype, device):
        return Tensor(self.log, numbers, is_cuda=device == "cuda")

    def zeros(self, count, *, dtype, device="cpu", pin_memory=False):
        assert (device == "cuda") != pin_memory
        return self.tensor([0] * count, dtype=dtype, device=device)

    empty = zeros


class Buffer:
    """A layer of the pool."""

    device = "cuda"

    def __getitem__(self, _row):
        return SimpleNamespace(numel=lambda: 64)

    def element_size(self):
        return 8

    def stride(self, _dim):
        return 64

    def data_ptr(self):
        return 1 << 40


class Kernels:
    """They note what they are given, and read it and tell when they are run."""

    direct = True

    def __init__(self, log) -> None:
        self.log = log
        self.under_way = deque()
        self.places = []  # of the slots that each was given
        self.read = []

    def sign(self, rows, slots, count, told, number, stream):
        self.log.append(f"signs {count}")
        self._given(rows, slots, count, told, [number])

    def compare(self, rows, slots, count, told, stream):
        self.log.append(f"compares {count}")
        self._given(rows, slots, count, told, [0, 0])

    def _given(self, rows, slots, count, told, tells):
        if type(slots) is not int:
            slots = slots.data_ptr()
        self.places.append(slots)
        self.under_way.append((rows.data_ptr(), slots, count, told, tells))

    def tell_one_half(self, half):
        """Of the counts of the comparison that is next."""
        *_, told, tells = self.under_way[0]
        (c_int64 * len(tells)).from_address(told)[half] = tells[half]

    def run(self, count=1):
        for _ in range(count):
            rows, slots, count, told, tells = self.under_way.popleft()
            self.read.append([list((c_int64 * count).from_address(place)) for place in (rows, slots)])
            (c_int64 * len(tells)).from_address(told)[:] = tells


@pytest.fixture
def log():
    return []


@pytest.fixture
def torch(monkeypatch, log):
    torch = Torch(log)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


@pytest.fixture
def witness(monkeypatch, log, torch):
    """Its keys, and the trial of its kernels, have tests of their own with real tensors."""
    kernels = SimpleNamespace(Kernels=lambda *_, **__: Kernels(log))
    monkeypatch.setitem(sys.modules, "hicache_tracing.witness.kernels", kernels)
    monkeypatch.setattr(cuda, "STAGED", RING)
    monkeypatch.setattr(cuda, "draw_keys", lambda *_: [torch.zeros(64, dtype=torch.int64, pin_memory=True)])
    monkeypatch.setattr(CudaWitness, "_warm_up", lambda _self: None)
    return CudaWitness([Buffer()] * 4, 200, ContentMode.FULL)


@pytest.fixture
def operation(log):
    def make(count, first=0):
        return SimpleNamespace(
            host_indices=Tensor(log, range(first, first + count), is_cuda=False),
            device_indices=Tensor(log, range(count), is_cuda=True),
        )

    return make


@pytest.fixture
def ack(log):
    return SimpleNamespace(start_event=Event(log, "the start"), finish_event=Event(log, "the finish"))


def reported(witness):
    """(transfer, checked, mismatched, unseen) of each comparison."""
    told = []
    witness.report(lambda _kind, _rid, *numbers: told.append(numbers[:4]))
    return told


@pytest.mark.parametrize(
    ("step", "event", "kernel"),
    [("backed_up", "the start", "signs 5"), ("loaded", "the finish", "compares 5")],
)
class TestTheRowNumbers:
    def test_of_several_operations_are_joined_before_our_stream_reads_them(
        self, witness, operation, ack, log, step, event, kernel
    ):
        getattr(witness, step)(1, [operation(2), operation(3)], ack)
        assert log == ["engine joins", "ours waits for engine", f"ours waits for {event}", kernel]

    def test_of_one_are_there_when_its_transfer_begins(self, witness, operation, ack, log, step, event, kernel):
        getattr(witness, step)(1, [operation(5)], ack)
        assert log == [f"ours waits for {event}", kernel]

    @pytest.mark.parametrize("how", [{"dtype": "int32"}, {"contiguous_": False}], ids=["narrow", "strided"])
    def test_that_are_no_plain_int64_are_made_so_on_our_stream(
        self, witness, operation, ack, log, step, event, kernel, how
    ):
        odd = operation(5)
        vars(odd.device_indices).update(how)
        getattr(witness, step)(1, [odd], ack)
        assert log == [f"ours waits for {event}", "kept for ours", "widened", kernel]


@pytest.fixture
def out_of_memory(monkeypatch):
    """From now on the device has none left to copy slots to."""

    def to(_self, *_, **__):
        raise MemoryError

    return lambda: monkeypatch.setattr(Tensor, "to", to)


@pytest.fixture
def begun(witness, operation, ack):
    """Begins an operation that nobody else keeps; whether its row numbers are still kept."""

    def begin(step, transfer=1):
        one = operation(5)
        rows = weakref.ref(one.device_indices)
        getattr(witness, step)(transfer, [one], ack)
        return lambda: rows() is not None

    return begin


class TestTheRowNumbersOfAnOperation:
    def test_are_kept_until_the_comparison_has_told(self, witness, begun, log):
        kept = begun("loaded")
        witness.load_finished(1)
        witness.forget()
        assert reported(witness) == []
        assert kept()
        witness.kernels.run()
        assert reported(witness) == [(1, 5, 0, 5)], "void: it was forgotten"
        assert not kept()
        assert "kept for ours" not in log

    def test_are_kept_until_the_backup_is_finished(self, witness, begun, log):
        kept = begun("backed_up")
        assert kept()
        witness.kernels.run()
        witness.backup_finished(1)
        assert not kept()
        assert "kept for ours" not in log

    @pytest.mark.parametrize("end", ["backup_finished", "forget"])
    def test_are_left_to_the_allocator_if_they_are_let_go_before_they_are_read(self, witness, begun, log, end):
        kept = begun("backed_up")
        getattr(witness, end)(*[1] * (end == "backup_finished"))
        assert not kept()
        assert "kept for ours" in log

    def test_also_if_its_slots_cannot_be_unseen(self, witness, begun, log, out_of_memory):
        kept = begun("backed_up")
        out_of_memory()
        with pytest.raises(MemoryError):
            witness.backup_finished(1)
        assert not kept()
        assert log[-1] == "kept for ours"

    def test_are_kept_also_if_the_oldest_that_makes_room_cannot_be_unseen(
        self, monkeypatch, witness, operation, ack, log, out_of_memory
    ):
        monkeypatch.setattr(cuda, "PENDING", 1)
        witness.backed_up(1, [operation(5)], ack)
        newest = operation(5)
        rows = weakref.ref(newest.device_indices)
        out_of_memory()
        with pytest.raises(MemoryError):
            witness.backed_up(2, [newest], ack)
        del newest
        gc.collect()
        assert rows() is not None
        assert log[-1] == "kept for ours", "the oldest"


class TestABackup:
    def test_that_is_finished_before_it_is_signed_leaves_its_slots_unseen(self, witness, operation, ack, log):
        witness.backed_up(1, [operation(3, 40)], ack)
        witness.backed_up(2, [operation(3, 50)], ack)
        witness.kernels.run()
        witness.backup_finished(1)
        assert not [line for line in log if line.startswith("unsees")]
        witness.backup_finished(2)
        assert [line for line in log if line.startswith("unsees")] == ["unsees [50, 51, 52]"]

    def test_of_no_row_of_the_kv_pool_is_not_signed(self, witness, operation, ack, log):
        witness.backed_up(1, [operation(0)], ack)
        witness.backup_finished(1)
        assert log == []


class TestAComparison:
    def test_is_void_if_rows_left_the_device_before_it_has_told(self, witness, operation, ack):
        for transfer in (1, 2):
            witness.loaded(transfer, [operation(5)], ack)
            witness.load_finished(transfer)
        witness.kernels.run()
        witness.left_device()
        witness.kernels.run()
        assert reported(witness) == [(1, 5, 0, 0), (2, 5, 0, 5)]

    @pytest.mark.parametrize("half", [0, 1])
    def test_is_not_done_while_one_of_its_counts_is_still_to_come(self, witness, operation, ack, half):
        witness.loaded(1, [operation(5)], ack)
        witness.kernels.tell_one_half(half)
        assert reported(witness) == []
        witness.kernels.run()
        assert reported(witness) == [(1, 5, 0, 0)]

    def test_of_which_the_launch_fails_takes_no_place(self, monkeypatch, witness, operation, ack):
        """Else so many of them would come round to a place in which another one is still to tell."""

        def refuses(*_):
            raise RuntimeError("no launch")

        witness.loaded(1, [operation(5)], ack)
        with monkeypatch.context() as broken:
            broken.setattr(witness.kernels, "compare", refuses)
            for _ in range(cuda.PENDING):
                with pytest.raises(RuntimeError):
                    witness.loaded(2, [operation(1)], ack)
        witness.loaded(3, [operation(5)], ack)
        for transfer in (1, 3):
            witness.kernels.run()
            assert reported(witness) == [(transfer, 5, 0, 0)]


class TestTheStagedSlots:
    def test_are_what_the_kernels_read(self, witness, operation, ack):
        for first in range(0, 90, 9):
            witness.backed_up(first, [operation(9, first)], ack)
        witness.loaded(100, [operation(4, 70), operation(5, 80)], ack)
        witness.kernels.run(11)
        read = [slots for _, slots in witness.kernels.read]
        assert read == [[*range(first, first + 9)] for first in range(0, 90, 9)] + [[*range(70, 74), *range(80, 85)]]

    @pytest.mark.parametrize("before", ["forget", "backup_finished", "overwritten"])
    def test_are_not_written_over_while_our_stream_may_still_read_them(
        self, witness, operation, ack, log, torch, before
    ):
        """Also not if nothing is left here of who was to read them."""
        if before == "overwritten":
            witness.overwritten(operation(80).host_indices)
        else:
            witness.backed_up(1, [operation(80)], ack)
            getattr(witness, before)(*[1] * (before == "backup_finished"))
        log.clear()
        torch.ours.idle = False
        witness.backed_up(2, [operation(80)], ack)
        assert log[0] == "copied to the device", "a copy of its own, which lives as long as it is read"
        torch.ours.idle = True
        witness.forget()
        log.clear()
        witness.backed_up(3, [operation(30)], ack)
        assert "copied to the device" not in log, "there is room again"

    def test_are_written_over_at_once_when_all_were_read_and_the_driver_need_not_be_asked(
        self, witness, operation, ack, torch
    ):
        for transfer in range(5):
            witness.backed_up(transfer, [operation(30)], ack)
            witness.kernels.run()
            witness.backup_finished(transfer)
            witness.loaded(transfer, [operation(30)], ack)
            witness.kernels.run()
            reported(witness)
        assert len(set(witness.kernels.places)) == 1
        assert torch.ours.asked == 0

    def test_begin_anew_in_a_full_ring_only_if_our_stream_has_nothing_left_to_do(self, witness, operation, ack, torch):
        witness.backed_up(1, [operation(80)], ack)
        witness.backed_up(2, [operation(30)], ack)
        assert torch.ours.asked == 1
        assert len(set(witness.kernels.places)) == 1
