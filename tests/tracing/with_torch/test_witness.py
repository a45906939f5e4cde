"""The content witness on the CPU: what it must see, and what it must not claim."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hicache_tracing.records import ContentMode, Kind
from hicache_tracing.witness import UnwitnessableError, make_witness

SLOTS, LAYERS, HEADS, WIDTH = 64, 4, 2, 16
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2]


class Machine:
    """Device and host rows of one rank, copies between them, and a witness that is told of each."""

    def __init__(self, mode="full", dtype=torch.bfloat16, mla=False, layers=LAYERS):
        shape = (SLOTS, 1, 2 * WIDTH) if mla else (SLOTS, HEADS, WIDTH)
        size = torch.tensor([], dtype=dtype).element_size()
        names = ["kv_buffer"] if mla else ["k_buffer", "v_buffer"]
        self.raw = {
            name: [torch.randint(0, 256, (*shape[:-1], shape[-1] * size), dtype=torch.uint8) for _ in range(layers)]
            for name in names
        }
        pool = SimpleNamespace(**{name: [raw.view(dtype) for raw in raws] for name, raws in self.raw.items()})
        self.rows = [raw for raws in self.raw.values() for raw in raws]
        self.host = [torch.zeros(3 * SLOTS, *shape[1:-1], shape[-1] * size, dtype=torch.uint8) for _ in self.rows]
        controller = SimpleNamespace(mem_pool_device=pool, mem_pool_host=SimpleNamespace(size=3 * SLOTS))
        self.witness = make_witness(controller, mode)
        self.transfer = 0

    def backup(self, device, host):
        for rows, copy in zip(self.rows, self.host, strict=True):
            copy[host] = rows[device]
        self.transfer += 1
        self.witness.backed_up(self.transfer, operations(host, device), None)
        self.witness.backup_finished(self.transfer)

    def scramble(self):
        """Other requests use the device."""
        for rows in self.rows:
            rows.random_(0, 256)
        self.witness.left_device()

    def load(self, host, device, spoil=lambda machine: None):
        for rows, copy in zip(self.rows, self.host, strict=True):
            rows[device] = copy[host]
        spoil(self)
        self.transfer += 1
        self.witness.loaded(self.transfer, operations(host, device), None)

    def verdict(self):
        """(checked, mismatched, unseen) of the last comparison."""
        return self.report()[-1][1:4]

    def report(self):
        written = []
        self.witness.report(lambda kind, rid, *numbers: written.append((kind, rid, numbers)))
        assert all(kind == Kind.CONTENT and rid == b"" for kind, rid, _ in written)
        return [numbers for _, _, numbers in written]


def operations(host, device, parts=1):
    return [
        SimpleNamespace(host_indices=one, device_indices=other)
        for one, other in zip(host.chunk(parts), device.chunk(parts), strict=True)
    ]


DEVICE, HOST, BACK = torch.arange(5, 25), torch.arange(100, 120), torch.arange(40, 60)


def after(spoil, prepare=lambda machine: None, **machine):
    machine = Machine(**machine)
    prepare(machine)
    machine.backup(DEVICE, HOST)
    machine.scramble()
    machine.load(HOST, BACK, spoil)
    return machine.verdict()


class TestIntact:
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("mla", [False, True], ids=["mha", "mla"])
    @pytest.mark.parametrize("mode", ["full", "sampled"])
    def test_rows_are_intact_in_other_device_slots(self, dtype, mla, mode):
        assert after(lambda _: None, dtype=dtype, mla=mla, mode=mode) == (20, 0, 0)

    def test_slots_in_any_order(self):
        machine = Machine()
        order = torch.randperm(20)
        machine.backup(DEVICE[order], HOST[order.flip(0)])
        machine.scramble()
        machine.load(HOST, BACK)
        assert machine.verdict() == (20, 0, 0)

    def test_several_operations_in_one_transfer(self):
        machine = Machine()
        for rows, copy in zip(machine.rows, machine.host, strict=True):
            copy[HOST] = rows[DEVICE]
        machine.witness.backed_up(1, operations(HOST, DEVICE, 4), None)
        machine.load(HOST[3:9], BACK[3:9])
        assert machine.verdict() == (6, 0, 0)

    def test_a_slot_used_again_is_compared_with_its_last_backup(self):
        machine = Machine()
        machine.backup(DEVICE, HOST)
        machine.scramble()
        machine.backup(DEVICE, HOST)
        machine.scramble()
        machine.load(HOST, BACK)
        assert machine.verdict() == (20, 0, 0)

    def test_bits_count_not_numbers(self):
        """NaN is not equal to itself and -0 is equal to 0: rows are compared as bits."""
        machine = Machine(dtype=torch.float32)
        for rows in machine.rows:
            rows.view(torch.float32)[DEVICE] = float("nan")
        machine.backup(DEVICE, HOST)
        machine.load(HOST, BACK)
        assert machine.verdict() == (20, 0, 0)
        machine.rows[0].view(torch.float32)[DEVICE] = 0.0
        machine.backup(DEVICE, HOST)
        machine.load(HOST, BACK, lambda m: m.rows[0].view(torch.float32)[BACK[:1]].neg_())
        machine.load(HOST, BACK, lambda m: m.rows[0].view(torch.float32).index_fill_(0, BACK[:1], -0.0))
        assert machine.verdict() == (20, 1, 0)


def swap(machine, one, other):
    machine.rows[one][BACK], machine.rows[other][BACK] = machine.rows[other][BACK], machine.rows[one][BACK].clone()


class TestDamaged:
    SPOILS = {  # noqa: RUF012
        "two rows swapped": (lambda m: [rows.__setitem__(BACK[:2], rows[BACK[:2].flip(0)]) for rows in m.rows], 2),
        "all rows shifted by one": (lambda m: [rows.__setitem__(BACK, rows[BACK.roll(1)]) for rows in m.rows], 20),
        "two layers swapped": (lambda m: swap(m, 0, 1), 20),
        "keys and values exchanged": (lambda m: [swap(m, i, i + LAYERS) for i in range(LAYERS)], 20),
        "rows of zeros": (lambda m: [rows.index_fill_(0, BACK[4:9], 0) for rows in m.rows], 5),
        "one layer not copied": (lambda m: m.rows[2].index_fill_(0, BACK, 0), 20),
        "halves of a row swapped": (lambda m: m.rows[1].__setitem__(BACK[7], m.rows[1][BACK[7]].roll(1, 0)), 1),
        "words of a row moved on": (lambda m: m.rows[1].__setitem__(BACK[7], m.rows[1][BACK[7]].roll(8, 1)), 1),
        "words of a row turned around": (
            lambda m: m.rows[1].__setitem__(
                BACK[7], m.rows[1][BACK[7]].view(torch.int64).flip(1).contiguous().view(torch.uint8)
            ),
            1,
        ),
        "halves of each word swapped": (
            lambda m: m.rows[1].__setitem__(
                BACK[7],
                m.rows[1][BACK[7]].view(torch.int32).reshape(HEADS, -1, 2).flip(2).reshape(HEADS, -1).view(torch.uint8),
            ),
            1,
        ),
        "another prompt's rows": (lambda m: [rows.index_copy_(0, BACK, rows[:20].clone()) for rows in m.rows], 20),
    }

    @pytest.mark.parametrize(("spoil", "rows"), SPOILS.values(), ids=SPOILS.keys())
    def test_is_seen_in_the_rows_concerned(self, spoil, rows):
        assert after(spoil) == (20, rows, 0)

    @settings(max_examples=200, deadline=None)
    @given(st.sampled_from([0, None, 255]), st.integers(0, 2 * LAYERS - 1), st.integers(0, 19), st.data())
    def test_one_flipped_bit_anywhere(self, fill, layer, row, data):
        """In rows of any content: a product with a zero half would hide what is in the other."""

        def prepare(machine):
            if fill is not None:
                [rows.fill_(fill) for rows in machine.rows]

        def flip(machine):
            cells = machine.rows[layer][BACK[row]].reshape(-1)
            cell, bit = data.draw(st.integers(0, cells.numel() - 1)), data.draw(st.integers(0, 7))
            cells[cell] ^= 1 << bit
            machine.rows[layer][BACK[row]] = cells.reshape(machine.rows[layer][BACK[row]].shape)

        assert after(flip, prepare) == (20, 1, 0)

    def test_in_the_host_between_backup_and_load(self):
        machine = Machine()
        machine.backup(DEVICE, HOST)
        machine.host[3][HOST[11]] ^= 1
        machine.scramble()
        machine.load(HOST, BACK)
        assert machine.verdict() == (20, 1, 0)


class TestUnseen:
    def test_slots_never_backed_up_are_neither_intact_nor_damaged(self):
        machine = Machine()
        machine.backup(DEVICE[:12], HOST[:12])
        machine.load(HOST, BACK)
        assert machine.verdict() == (20, 0, 8)

    def test_after_a_reset_nothing_is_known(self):
        machine = Machine()
        machine.backup(DEVICE, HOST)
        machine.witness.forget()
        machine.load(HOST, BACK, lambda m: m.rows[0].zero_())
        assert machine.verdict() == (20, 0, 20)

    def test_slots_filled_from_storage_are_not_known_any_more(self):
        machine = Machine()
        machine.backup(DEVICE, HOST)
        machine.witness.overwritten(HOST[:5])
        machine.load(HOST, BACK)
        assert machine.verdict() == (20, 0, 5)

    def test_backed_up_anew_they_are_known_again(self):
        machine = Machine()
        machine.backup(DEVICE, HOST)
        machine.witness.overwritten(HOST)
        machine.backup(DEVICE, HOST)
        machine.load(HOST, BACK)
        assert machine.verdict() == (20, 0, 0)


class TestModes:
    def test_sampled_looks_at_the_keys_of_one_layer_and_the_values_of_another_and_at_nothing_else(self):
        layers = 12
        seen = [
            after(lambda m, layer=layer: m.rows[layer].index_fill_(0, BACK, 0), mode="sampled", layers=layers)[1] == 20
            for layer in range(2 * layers)
        ]
        assert [layer for layer in range(layers) if seen[layer]] == [4]
        assert [layer for layer in range(layers) if seen[layers + layer]] == [7]

    @pytest.mark.parametrize(("mode", "buffers"), [("full", 2 * LAYERS), ("sampled", 2)])
    def test_what_was_looked_at_is_in_the_record(self, mode, buffers):
        machine = Machine(mode=mode)
        machine.backup(DEVICE, HOST)
        machine.load(HOST, BACK)
        [(transfer, *_, number, layers, cost)] = machine.report()
        assert (transfer, number, layers) == (machine.transfer, ContentMode[mode.upper()], buffers)
        assert cost > 0
        assert machine.report() == [], "each comparison is recorded once"

    def test_two_processes_sign_differently(self):
        """Keys are drawn anew: nobody can prepare rows that collide."""
        one, other = Machine(), Machine()
        for mine, theirs in zip(other.rows, one.rows, strict=True):
            mine.copy_(theirs)
        assert not torch.equal(one.witness.sign(DEVICE), other.witness.sign(DEVICE))


class TestRefused:
    def pool(self, **facts):
        rows = [torch.zeros(8, 1, 16)]
        return SimpleNamespace(**{"k_buffer": rows, "v_buffer": rows, **facts})

    def refuse(self, pool):
        with pytest.raises(UnwitnessableError) as caught:
            make_witness(SimpleNamespace(mem_pool_device=pool, mem_pool_host=SimpleNamespace(size=8)), "full")
        return str(caught.value)

    def test_a_pool_of_unknown_kind(self):
        assert "unknown pool SimpleNamespace" in self.refuse(SimpleNamespace())
        assert "unknown pool" in self.refuse(self.pool(k_buffer=None, v_buffer=None, kv_buffer=torch.zeros(4, 4)))

    def test_a_pool_that_keeps_rows_under_other_numbers(self):
        assert "translates" in self.refuse(self.pool(host_transfer_translate=lambda rows: rows))

    def test_rows_that_are_not_whole_words(self):
        assert "rows of 6 bytes" in self.refuse(self.pool(k_buffer=[torch.zeros(8, 3, dtype=torch.float16)]))

    def test_rows_that_lie_scattered(self):
        assert "rows of" in self.refuse(self.pool(k_buffer=[torch.zeros(8, 16, 4).transpose(1, 2)]))

    def test_rows_on_a_device_that_is_not_known(self):
        rows = [torch.zeros(8, 1, 16, device="meta")]
        assert "rows on meta" in self.refuse(self.pool(k_buffer=rows, v_buffer=rows))


def test_memory_is_nine_bytes_a_host_slot_and_the_keys():
    machine = Machine()
    tensors = [item for item in vars(machine.witness).values() if isinstance(item, torch.Tensor)]
    assert sum(item.numel() * item.element_size() for item in tensors) == 9 * 3 * SLOTS
    row = HEADS * WIDTH * 2
    assert sum(key.numel() * 8 for key in machine.witness._keys) == 2 * LAYERS * row


def test_results_that_nobody_collects_are_bounded():
    """The seam that reports them may be off; loads go on for months."""
    machine = Machine()
    machine.backup(DEVICE, HOST)
    for _ in range(300):
        machine.load(HOST, BACK)
    assert len(machine.report()) == 256
    assert machine.report() == []
