"""What is recorded of copies between the device and the host: backups, transfers, and what a reset does to them."""

from __future__ import annotations

from enum import Enum, StrEnum
from types import SimpleNamespace

import pytest

from hicache_tracing.records import ABSENT, Direction, EvictCause, Kind, Tier
from hicache_tracing.seams import ALL

from .engines import engine as running
from .moves import LONGER, OTHER, PROMPT, evict_then_ask_again, pairs, runs, transfers

D2H, H2D = Direction.DEVICE_TO_HOST, Direction.HOST_TO_DEVICE


class TestBackup:
    def test_of_a_prompt_that_was_computed(self, engine):
        engine.serve("first", PROMPT)
        [backup] = engine.ring().of(Kind.BACKUP)
        assert backup.rid == "first"
        facts = backup.named()
        assert (facts["tokens"], facts["accepted"], facts["runs_complete"]) == (300, 1, 1)
        assert runs(backup) == [(0, 300)]
        [transfer], [done] = transfers(engine, D2H)
        assert pairs(transfer) == [(facts["node_id"], facts["operation_id"])]
        assert done.numbers[0] == transfer.numbers[0]
        assert done.named()["finished"] == 1

    def test_its_host_slots_are_the_ones_it_got_in_the_order_it_writes_them(self, engine):
        engine.tree.cache_controller.mem_pool_host.free_slots = [5, 6, 7, 20, 21, 3, *range(100, 1000)]
        engine.serve("first", PROMPT[:8])
        assert runs(engine.ring().of(Kind.BACKUP)[0]) == [(5, 3), (20, 2), (3, 1), (100, 2)]

    def test_refused_for_lack_of_host_room(self, release, tmp_path):
        with running(release, tmp_path, host_tokens=100) as engine:
            engine.serve("first", PROMPT)
            refused = engine.ring().facts(Kind.BACKUP)
            assert all((facts["accepted"], facts["runs"], facts["runs_complete"]) == (0, 0, 1) for facts in refused)
            assert engine.ring().of(Kind.TRANSFER) == []
            engine.serve("small", PROMPT[:50])
            [transfer], _ = transfers(engine, D2H)
            accepted = engine.ring().facts(Kind.BACKUP)[-1]
            assert pairs(transfer) == [(accepted["node_id"], accepted["operation_id"])], "a refused one is not in it"
            if release == "v059":  # this tree asks the controller; the newer one looks at the room first
                assert len(refused) == 2

    def test_on_eviction_belongs_to_nobody(self, release, tmp_path):
        """write_back: it is not of the request that needs the room, and whose it is nobody can say."""
        with running(release, tmp_path, hicache_write_policy="write_back") as engine:
            engine.serve("first", PROMPT)
            assert engine.ring().of(Kind.BACKUP) == []
            engine.scheduler.evict(300)
            [backup] = engine.ring().of(Kind.BACKUP)
            assert backup.rid == ""
            [facts] = engine.ring().facts(Kind.EVICT)
            assert (facts["tier"], facts["cause"]) == (Tier.DEVICE, EvictCause.DEMOTED)
            assert (facts["node_id"], facts["tokens"]) == (backup.numbers[0], 300)

    def test_on_eviction_is_not_of_the_request_that_was_cached_last(self, release, tmp_path):
        with running(release, tmp_path, hicache_write_policy="write_back") as engine:
            engine.scheduler.receive("still running", PROMPT, max_new_tokens=9)
            engine.steps(2)
            engine.scheduler.evict(300)
            assert [record.rid for record in engine.ring().of(Kind.BACKUP)] == [""]

    def test_on_eviction_for_a_load_back_belongs_to_nobody_either(self, release, tmp_path):
        with running(release, tmp_path, hicache_write_policy="write_back", device_tokens=400) as engine:
            engine.serve("first", PROMPT)
            engine.scheduler.evict(300)
            engine.serve("fills the device", OTHER)
            before = len(engine.ring().of(Kind.BACKUP))
            engine.scheduler.receive("again", LONGER, max_new_tokens=2)
            engine.steps()
            [load_back] = engine.ring().of(Kind.LOAD_BACK)
            assert (load_back.rid, load_back.named()["loaded_tokens"]) == ("again", 300)
            assert [record.rid for record in engine.ring().of(Kind.BACKUP)[before:]] == [""]

    def test_on_eviction_for_what_another_request_puts_into_the_tree_is_not_of_that_one(self, release, tmp_path):
        with running(release, tmp_path, hicache_write_policy="write_back", device_tokens=400) as engine:
            engine.serve("first", PROMPT)
            engine.serve("needs the room", OTHER)
            [backup] = engine.ring().of(Kind.BACKUP)
            assert (backup.rid, backup.named()["tokens"]) == ("", 300)

    def test_after_the_policy_is_changed_it_has_an_owner_again(self, release, tmp_path):
        with running(release, tmp_path, hicache_write_policy="write_back") as engine:
            engine.tree.cache_controller.write_policy, engine.tree.is_write_back = "write_through", False
            engine.serve("first", PROMPT)
            assert [record.rid for record in engine.ring().of(Kind.BACKUP)] == ["first"]

    def test_that_the_engine_fails_at_is_in_no_transfer(self, engine):
        controller = engine.tree.cache_controller
        pool, controller.mem_pool_host = controller.mem_pool_host, None
        with pytest.raises(AttributeError):
            controller.write(controller.mem_pool_device.alloc(50), node_id=4242)
        assert engine.session.backups.queued == []
        controller.mem_pool_host = pool
        engine.serve("first", PROMPT)
        [backup], [transfer] = engine.ring().of(Kind.BACKUP), transfers(engine, D2H)[0]
        assert pairs(transfer) == [(backup.named()["node_id"], backup.named()["operation_id"])]
        assert engine.ring().of(Kind.SEAM_FAULT) == []

    def test_asked_for_while_an_exception_is_handled_is_one_like_any_other(self, tmp_path):
        with running("v0523", tmp_path) as engine:
            controller = engine.tree.cache_controller
            try:
                raise KeyError("of the engine's own")
            except KeyError:
                controller.write(controller.mem_pool_device.alloc(50), node_id=4242, flush=False)
            assert [node for node, *_ in engine.session.backups.queued] == [4242]


class TestTransfer:
    def test_volume_and_device_time_where_the_engine_gives_them(self, engine, release):
        evict_then_ask_again(engine)
        [transfer], [done] = transfers(engine, H2D)
        if release == "v0523":
            assert (transfer.named()["tokens"], transfer.named()["bytes"], transfer.named()["timed"]) == (
                300,
                153600,
                1,
            )
            assert (done.named()["tokens"], done.named()["bytes"]) == (300, 153600)
            assert done.named()["device_ns"] > 0
        else:
            # the ack does not say: these are the sums over the operations that it merged
            assert (transfer.named()["tokens"], transfer.named()["bytes"], transfer.named()["timed"]) == (
                300,
                153600,
                0,
            )
            assert done.named()["device_ns"] == ABSENT
        assert transfer.named()["producer_id"] == 1

    def test_one_carries_several_requests(self, engine):
        engine.serve("first", PROMPT)
        engine.serve("second", OTHER)
        engine.scheduler.evict(600)
        engine.scheduler.receive("first again", LONGER)
        engine.scheduler.receive("second again", [*OTHER, 7])
        engine.steps()
        loads = engine.ring().of(Kind.LOAD)
        assert [record.rid for record in loads] == ["first again", "second again"]
        [transfer], [] = transfers(engine, H2D)
        assert pairs(transfer) == [(load.named()["node_id"], load.named()["operation_id"]) for load in loads]
        engine.settle()
        assert len(transfers(engine, H2D)[1]) == 1

    def test_is_done_when_the_engine_has_seen_its_end_not_before(self, engine):
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        engine.scheduler.receive("again", LONGER)
        engine.steps(5)
        assert len(transfers(engine, H2D)[0]) == 1
        assert transfers(engine, H2D)[1] == []
        engine.settle()
        assert [done.named()["finished"] for done in transfers(engine, H2D)[1]] == [1]

    @pytest.mark.parametrize("function", ["load", "write"])
    def test_of_what_nobody_told_is_recorded_all_the_same(self, release, tmp_path, function):
        off = {target.seam for target in ALL if target.name == function}
        with running(release, tmp_path, {"seams_off": frozenset(off)}) as engine:
            evict_then_ask_again(engine)
            started, done = transfers(engine, H2D if function == "load" else D2H)
            assert len(started) == len(done) >= 1
            assert {record.named()["operations"] for record in started} == {0}

    @pytest.mark.parametrize("function", ["load", "write"])
    def test_of_what_could_not_be_told_is_recorded_all_the_same(self, engine, monkeypatch, function):
        evict_then_ask_again(engine)
        direction = H2D if function == "load" else D2H
        before = len(transfers(engine, direction)[0])
        with monkeypatch.context() as fault:
            fault.setattr(type(engine.session), "queued", lambda *_: 1 / 0)
            engine.scheduler.evict(600)
            engine.serve("second", OTHER)
            engine.scheduler.evict(600)
            engine.serve("second again", [*OTHER, 7])
        assert len(transfers(engine, direction)[0]) > before
        assert [seam.faults for seam in engine.session.seams if seam.name.endswith(f".{function}") and seam.faults]

    def test_nothing_is_looked_at_while_nothing_is_under_way(self, engine):
        evict_then_ask_again(engine)
        engine.steps(3)
        gates = [gate for way in (engine.session.loads, engine.session.backups) for gate in (way.start, way.end)]
        engine.tree.cache_controller.start_loading()
        engine.tree.cache_controller.start_writing()
        assert [gate.open for gate in gates] == [False] * 4

    def test_that_an_eviction_waits_for_is_done_before_it(self, release, tmp_path):
        """write_back: one and the same call of the engine may hand over what is queued and wait until it is there."""
        with running(release, tmp_path, hicache_write_policy="write_back") as engine:
            engine.serve("first", PROMPT)
            engine.steps(3)
            assert not engine.session.backups.end.open
            engine.scheduler.evict(300)
            told, of = [record.kind for record in engine.ring().records], (Kind.TRANSFER_DONE, Kind.EVICT)
            assert tuple(kind for kind in told if kind in of) == of
            engine.steps()
            assert not engine.session.backups.end.open

    def test_several_open_ones_end_each_on_its_own(self, engine):
        for i in range(3):
            engine.scheduler.receive(f"request {i}", range(1000 * i, 1000 * i + 50))
            engine.steps()
        started, done = transfers(engine, D2H)
        assert (len(started), len(done)) == (3, 0)
        engine.tree.cache_controller.ack_write_queue[0].finish_event.synchronize()
        engine.steps()
        assert [record.numbers[0] for record in transfers(engine, D2H)[1]] == [started[0].numbers[0]]
        engine.settle()
        assert [record.numbers[0] for record in transfers(engine, D2H)[1]] == [record.numbers[0] for record in started]

    def test_nothing_of_the_engines_is_kept_once_it_is_done(self, engine):
        evict_then_ask_again(engine)
        session = engine.session
        assert (session.loads.open, session.loads.queued) == ([], [])
        assert (session.backups.open, session.backups.queued) == ([], [])
        assert session.load_scope is None
        assert session.rid == ""


class TestReset:
    def test_in_mid_flight_drops_what_will_never_be_acknowledged(self, engine):
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        engine.scheduler.receive("again", LONGER)
        engine.steps()
        engine.tree.reset()
        assert engine.ring().facts(Kind.RESET) == [{"open_loads": 1, "open_backups": 1}]
        assert [done.named()["finished"] for done in transfers(engine, H2D)[1]] == [0]
        assert [done.named()["finished"] for done in transfers(engine, D2H)[1]] == [1, 0]
        assert {done.named()["device_ns"] for done in engine.ring().of(Kind.TRANSFER_DONE)[-2:]} == {ABSENT}

    def test_what_was_queued_before_it_is_not_in_the_next_transfer(self, engine, release):
        engine.serve("first", PROMPT)
        engine.scheduler.evict(300)
        req = engine.scheduler.receive("again", LONGER)
        engine.tree.match_prefix(req)
        adder = engine.module("managers.schedule_policy").PrefillAdder(engine.tree, 10_000)
        adder.add_one_req(req, False, None)
        assert len(engine.ring().of(Kind.LOAD)) == 1, "queued, and never handed to the device"
        engine.tree.reset()
        engine.scheduler.waiting.clear()
        engine.serve("new", OTHER)
        engine.scheduler.evict(300)
        engine.serve("new again", [*OTHER, 7])
        [transfer], [done] = transfers(engine, H2D)
        assert len(pairs(transfer)) == 1
        assert done.named()["finished"] == 1

    def test_of_a_tree_under_construction_is_none(self, engine):
        assert engine.ring().of(Kind.RESET) == []


class PoolName(StrEnum):
    KV = "kv"
    SWA = "swa"
    MAMBA = "mamba"


class TestOfSeveralPools:
    """A hybrid model: sliding-window rows and states travel with the KV, and the engine counts them by pool."""

    def pools(self, engine, by_pool):
        def pool(size):
            return SimpleNamespace(host_pool=SimpleNamespace(size_per_token=size))

        group = SimpleNamespace(
            anchor_entry=SimpleNamespace(name=PoolName.KV, host_pool=SimpleNamespace(size_per_token=512)),
            entry_map={PoolName.KV: pool(512), PoolName.SWA: pool(64)},
        )
        engine.tree.cache_controller.mem_pool_host = group
        ack = SimpleNamespace(num_tokens_by_pool=by_pool, num_bytes=1000)
        transfer = engine.session.submitted(engine.session.loads, ack, 0)
        return transfer, [
            (record.extra[: record.named()["length"]].decode(), *record.numbers[:3])
            for record in engine.ring().of(Kind.TRANSFER_POOL)
        ]

    def test_each_beside_the_kv_has_its_own_record(self, engine):
        transfer, told = self.pools(engine, {"kv": 300, "swa": 128, "mamba": 1})
        assert told == [("swa", transfer, 128, 128 * 64), ("mamba", transfer, 1, ABSENT)]

    def test_their_names_may_be_members_of_an_enum(self, engine):
        plain = Enum("plain", {"KV": "kv", "SWA": "swa"})
        transfer, told = self.pools(engine, {plain.KV: 300, plain.SWA: 128})
        assert told == [("swa", transfer, 128, 128 * 64)]

    def test_a_fault_here_costs_no_transfer_its_end(self, engine):
        with pytest.raises(ValueError, match="many"):
            self.pools(engine, {"kv": 300, "swa": "many"})
        assert len(engine.session.loads.open) == 1

    def test_of_the_kv_alone_there_is_none(self, engine):
        assert self.pools(engine, {"kv": 300})[1] == []

    def test_nor_where_the_engine_does_not_count_by_pool(self, engine):
        assert self.pools(engine, None)[1] == []


class TestOthersWithTheSameClasses:
    def test_the_controller_of_a_decode_offload_is_not_ours(self, engine):
        """PD disaggregation makes a controller of its own beside the tree's."""
        parts = __import__("engine_parts")
        controller = type(engine.tree.cache_controller)(parts.Pool(500), parts.Pool(500))
        head = engine.ring().head
        host = controller.write(parts.Slots(range(100)), node_id=3)
        controller.start_writing()
        controller.load(host, node_id=3)
        controller.start_loading()
        controller.evict_host(host)
        controller.write_storage(host, [])
        assert engine.ring().head == head
        assert engine.session.loads.queued == engine.session.backups.queued == []
        engine.serve("ours", PROMPT)
        assert len(engine.ring().of(Kind.TRANSFER)) == 1

    def test_nor_is_another_tree(self, engine):
        parts = __import__("engine_parts")
        controller = type(engine.tree.cache_controller)(parts.Pool(500), parts.Pool(500))
        head = engine.ring().head
        other = type(engine.tree)(controller)
        other.reset()
        assert engine.ring().head == head
