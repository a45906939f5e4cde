"""What is recorded of the process itself: its memory when it is idle anyway, and a change of the model's weights."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from hicache_tracing.records import ABSENT, Kind


class TestMemory:
    def test_at_most_every_ten_seconds_and_only_when_idle(self, engine, monkeypatch):
        now = 1_000_000_000
        monkeypatch.setattr("hicache_tracing.seams.memory.monotonic_ns", lambda: now)
        engine.serve("busy", list(range(300)))
        assert engine.ring().of(Kind.MEMORY) == []
        engine.steps(5)
        assert len(engine.ring().of(Kind.MEMORY)) == 1
        now += 9_999_999_999
        engine.steps(5)
        assert len(engine.ring().of(Kind.MEMORY)) == 1
        now += 1
        engine.steps(5)
        assert len(engine.ring().of(Kind.MEMORY)) == 2
        assert engine.scheduler.idle_turns >= 15

    @pytest.mark.parametrize("device", [True, False], ids=["with a device", "without"])
    def test_says_what_can_be_known(self, engine, monkeypatch, device):
        used = {"allocated_bytes": {"all": {"current": 111}}, "reserved_bytes": {"all": {"current": 222}}}
        cuda = SimpleNamespace(is_initialized=lambda: device, memory_stats_as_nested_dict=lambda: used)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
        engine.tree.cache_controller.mem_pool_host.kv_buffer = [SimpleNamespace(is_pinned=lambda: True)]
        engine.tree.cache_controller.mem_pool_device.get_kv_size_bytes = lambda: (1000, 500)
        engine.scheduler.tp_worker = SimpleNamespace(model_runner=SimpleNamespace(weight_load_mem_usage=1.5))
        engine.steps()
        assert engine.ring().facts(Kind.MEMORY) == [
            {
                "allocated_bytes": 111 if device else ABSENT,
                "reserved_bytes": 222 if device else ABSENT,
                "weights_bytes": 3 << 29 if device else ABSENT,
                "kv_pool_bytes": 1500,
                "host_pool_bytes": 3000 * 512,
                "host_pinned": 1,
            }
        ]

    def test_and_nothing_that_cannot(self, engine):
        engine.steps()
        [facts] = engine.ring().facts(Kind.MEMORY)
        assert (facts["weights_bytes"], facts["kv_pool_bytes"], facts["host_pinned"]) == (ABSENT, ABSENT, ABSENT)


def test_weight_updates_are_numbered(engine):
    engine.scheduler.weight_updater.update_weights_from_disk(None)
    engine.scheduler.weight_updater.update_weights_from_tensor(recv_req=None)
    assert len(engine.ring().of(Kind.WEIGHTS)) == 2
