"""Caches that come under the same flags and classes and are not what a proof is about: none is mistaken for it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hicache_tracing import dialects
from hicache_tracing.config import Settings
from hicache_tracing.guard import around
from hicache_tracing.records import EvictCause, Kind, SeamState
from hicache_tracing.seams import ALL
from hicache_tracing.session import Session

from .engines import importable
from .moves import runs
from .ring import read

CONTROLLER = SimpleNamespace(ack_load_queue=[], ack_write_queue=[])


def scheduler(tree: object) -> SimpleNamespace:
    return SimpleNamespace(tree_cache=tree, server_args=None)


@pytest.fixture
def session(tmp_path) -> Session:
    session = Session(Settings(folder=str(tmp_path), capacity=1024))
    session.open()
    return session


class TestWhichTreeItIs:
    def test_behind_a_wrapper_for_streaming_sessions_the_tree_within(self):
        tree = SimpleNamespace(cache_controller=CONTROLLER)
        wrapper = SimpleNamespace(inner=tree, cache_controller=None)
        assert dialects.hicache_tree(scheduler(wrapper)) is tree

    def test_also_behind_one_that_gives_out_what_the_tree_within_has(self):
        """0.5.10: its reset is told of the tree within."""

        class Wrapper:
            inner = SimpleNamespace(cache_controller=CONTROLLER)

            def __getattr__(self, name):
                return getattr(self.inner, name)

        assert dialects.hicache_tree(scheduler(Wrapper())) is Wrapper.inner

    def test_a_tree_that_has_a_controller_is_itself_whatever_it_keeps(self):
        tree = SimpleNamespace(cache_controller=CONTROLLER, inner=object())
        assert dialects.hicache_tree(scheduler(tree)) is tree

    def test_without_any_there_is_none(self):
        assert dialects.hicache_tree(SimpleNamespace()) is None


class TestAnExternalLinker:
    """``--enable-unified-cache-external-linker``: the unified tree, and no controller that would move anything."""

    def test_is_an_engine_without_hicache(self, session):
        session.identify(scheduler(SimpleNamespace(cache_controller=None)))
        identity = read(session.recorder.path).identity
        assert (identity["controller"], identity["content_mode"]) == (None, "off")

    @pytest.mark.parametrize("name", ["loading_check", "writing_check"])
    def test_its_checks_tell_nothing_and_fail_nothing(self, session, name):
        tree = SimpleNamespace(cache_controller=None)
        session.identify(scheduler(tree))
        target = next(target for target in ALL if target.seam == f"UnifiedRadixCache.{name}")
        seam = session.new_seam(target.seam)
        seam.set(SeamState.ATTACHED)
        around(lambda _tree: None, seam, *target.hooks(session))(tree)
        assert seam.faults == 0
        assert read(session.recorder.path).of(Kind.TRANSFER_DONE) == []


class TestATreeOfMambaStates:
    """HiMambaRadixCache: its evictions return the KV tokens and the states that left."""

    @pytest.fixture
    def evicted(self, session):
        """What is told of one of its functions, and how often ours failed."""

        def run(function: str) -> tuple[list[tuple[int, int, int]], int]:
            target = next(target for target in ALL if target.seam == f"HiMambaRadixCache.{function}")
            seam = session.new_seam(target.seam)
            evict = around(lambda _tree, _node: (64, 1), seam, *target.hooks(session))
            with importable("v0523"):
                node = SimpleNamespace(id=7, host_value=__import__("engine_parts").Slots(range(40, 104)))
            assert evict(SimpleNamespace(), node) == (64, 1)
            ring = read(session.recorder.path)
            return [
                (facts["cause"], facts["node_id"], facts["tokens"]) for facts in ring.facts(Kind.EVICT)
            ], seam.faults

        return run

    def test_the_tokens_of_what_was_dropped(self, evicted):
        assert evicted("_evict_regular") == ([(EvictCause.DROPPED, 7, 64)], 0)

    def test_the_tokens_of_what_the_host_still_holds_and_where(self, evicted, session):
        assert evicted("_evict_to_host") == ([(EvictCause.DEMOTED, 7, 64)], 0)
        [evict] = read(session.recorder.path).of(Kind.EVICT)
        assert runs(evict) == [(40, 64)]
