"""What is recorded of storage (L3): each turn of a read into the host, backups, the backend coming and going."""

from __future__ import annotations

import inspect

import pytest

from hicache_tracing.records import ABSENT, Kind, PrefetchOutcome, unpack_runs

from .engines import Engine

PROMPT = list(range(300))


@pytest.fixture
def stored(engine) -> Engine:
    """The engine with a storage backend attached."""
    engine.tree.attach_storage_backend("file")
    return engine


def deliver(engine: Engine, tokens: int) -> None:
    """Storage has put the first ``tokens`` of every prefetch into host slots."""
    for info in engine.tree.ongoing_prefetch.values():
        info.operation.host_indices = engine.tree.cache_controller.mem_pool_host.alloc(300)
        info.operation.completed_tokens = tokens
        info.operation.storage_hit_count = 256


def outcomes(engine: Engine) -> list[tuple[str, PrefetchOutcome]]:
    return [(record.rid, record.named()["outcome"]) for record in engine.ring().of(Kind.STORAGE_PREFETCH)]


class TestPrefetch:
    def test_asked_delivered_used(self, stored, release):
        stored.scheduler.receive("first", PROMPT)
        deliver(stored, 200)
        stored.steps()
        asked, delivered, used = stored.ring().of(Kind.STORAGE_PREFETCH)
        assert {record.rid for record in (asked, delivered, used)} == {"first"}
        assert asked.named()["outcome"] == PrefetchOutcome.ASKED
        assert (asked.named()["operation_id"], asked.named()["asked_tokens"]) == (7, 300)
        assert asked.named()["transferred_tokens"] == 0
        facts = delivered.named()
        assert facts["outcome"] == PrefetchOutcome.TRANSFERRED
        assert (facts["transferred_tokens"], facts["used_tokens"]) == (200, 199)
        assert facts["hit_tokens"] == 256
        assert unpack_runs(delivered.extra, facts["runs"]) == [(0, 200)], "only what was delivered, not what was asked"
        assert used.named()["outcome"] == PrefetchOutcome.USED
        assert used.named()["used_tokens"] == 199

    def test_too_short_is_declined(self, stored):
        stored.tree.prefetch_threshold = 256
        stored.scheduler.receive("short", PROMPT[:100])
        assert outcomes(stored) == [("short", PrefetchOutcome.TOO_SHORT)]
        [facts] = stored.ring().facts(Kind.STORAGE_PREFETCH)
        assert (facts["asked_tokens"], facts["operation_id"]) == (100, ABSENT)

    def test_too_short_once_it_is_cut_to_whole_pages(self, stored):
        stored.tree.prefetch_threshold, stored.tree.page_size = 100, 64
        stored.scheduler.receive("short", PROMPT[:100])
        assert outcomes(stored) == [("short", PrefetchOutcome.TOO_SHORT)]

    @pytest.mark.parametrize(
        ("occupied", "outcome"), [(500, PrefetchOutcome.RATE_LIMITED), (499, PrefetchOutcome.DECLINED)]
    )
    def test_declined_for_what_is_under_way_if_that_can_be_seen(self, stored, occupied, outcome):
        stored.tree.prefetch_threshold = 0
        controller = stored.tree.cache_controller
        controller.prefetch_tokens_occupied, controller.prefetch_capacity_limit = occupied, 500
        stored.scheduler.receive("declined", PROMPT[:100])
        assert outcomes(stored) == [("declined", outcome)]

    def test_declined_and_this_engine_does_not_say_why(self, stored, monkeypatch):
        monkeypatch.delattr(type(stored.tree), "prefetch_threshold", raising=False)
        vars(stored.tree).pop("prefetch_threshold", None)
        stored.scheduler.receive("declined", PROMPT[:100])
        assert outcomes(stored) == [("declined", PrefetchOutcome.DECLINED)]

    def test_revoked(self, stored, release):
        stored.scheduler.receive("first", PROMPT)
        stored.steps()
        if release == "v0523":
            assert outcomes(stored) == [("first", PrefetchOutcome.ASKED), ("first", PrefetchOutcome.REVOKED)]
        else:
            assert outcomes(stored)[0] == ("first", PrefetchOutcome.ASKED)
            assert PrefetchOutcome.USED not in [outcome for _, outcome in outcomes(stored)]

    def test_given_up_when_its_time_is_over(self, stored, release):
        if release == "v059":
            pytest.skip("this release does not say so")
        stored.scheduler.receive("first", PROMPT)
        next(iter(stored.tree.ongoing_prefetch.values())).operation.deadline_expired = True
        stored.steps()
        assert outcomes(stored)[-1] == ("first", PrefetchOutcome.DEADLINE)

    def test_without_storage_there_is_nothing_to_say(self, engine):
        engine.serve("first", PROMPT)
        assert engine.ring().of(Kind.STORAGE_PREFETCH) == []


class TestBackup:
    def test_queued_then_acknowledged(self, stored, release):
        stored.serve("first", PROMPT)
        node = 1 if release == "v0523" else stored.tree.nodes[0]
        stored.tree.write_backup_storage(node)
        assert stored.ring().facts(Kind.STORAGE_BACKUP) == [{"operation_id": 1, "tokens": 300, "finished": 0}]
        stored.steps()
        assert stored.ring().facts(Kind.STORAGE_BACKUP)[1:] == [{"operation_id": 1, "tokens": ABSENT, "finished": 1}]
        stored.steps(3)
        assert len(stored.ring().of(Kind.STORAGE_BACKUP)) == 2

    def test_what_is_under_way_is_not_looked_at_where_nothing_is_acknowledged(self, stored):
        """Of thousands, at every step of a scheduler whose storage is slow."""

        class UnderWay(dict):
            looks = 0

            def __iter__(self):
                self.looks += 1
                return super().__iter__()

        stored.tree.ongoing_backup = under_way = UnderWay({1: None, 2: None})
        drain = stored.tree._drain_storage_control_queues_impl
        names = [name for name in inspect.signature(drain).parameters if name != "log_metrics"]
        drain(**dict.fromkeys(names, 0), log_metrics=True)
        of_the_engine, under_way.looks = under_way.looks, 0
        drain(**dict.fromkeys(names, 0) | {"n_backup": 1}, log_metrics=True)
        assert under_way.looks == of_the_engine + 1
        assert stored.ring().facts(Kind.STORAGE_BACKUP) == [{"operation_id": 1, "tokens": ABSENT, "finished": 1}]


def test_the_backend_is_attached_refused_and_detached(engine):
    engine.tree.attach_storage_backend("nonsense")
    engine.tree.attach_storage_backend(storage_backend="file")
    engine.tree.detach_storage_backend()
    assert engine.ring().facts(Kind.STORAGE_ATTACH) == [
        {"attached": 1, "succeeded": 0},
        {"attached": 1, "succeeded": 1},
        {"attached": 0, "succeeded": 1},
    ]
