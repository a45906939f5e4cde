"""Attaching and letting go in every order that an engine, its other plugins and its own start-up can bring about."""

from __future__ import annotations

import functools
import importlib
import pickle
import sys
import threading

import pytest

from hicache_tracing import plugin
from hicache_tracing.config import Settings
from hicache_tracing.records import Kind, SeamState

from . import workload
from .engines import RELEASES, SCHEDULER, Engine, importable, launch
from .engines import engine as running

PROMPT = list(range(300))


@pytest.fixture
def settings(tmp_path) -> Settings:
    return Settings(folder=str(tmp_path), capacity=4096)


@pytest.fixture
def engine_importable(release):
    with importable(release):
        yield
        plugin.stop()


def served(release: str, session) -> Engine:
    engine = launch(release, session)
    engine.serve("first", PROMPT)
    return engine


def functions() -> dict[str, object]:
    """Every function of every engine module and class that is imported now."""
    found = {}
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] == "sglang":
            for key, value in vars(module).items():
                if callable(value):
                    found[f"{name}:{key}"] = value
                if isinstance(value, type) and value.__module__ == name:
                    found |= {f"{name}:{key}.{one}": item for one, item in vars(value).items() if callable(item)}
    return found


def changed(before: dict[str, object], after: dict[str, object]) -> set[str]:
    return {name for name in before if after[name] is not before[name]}


@pytest.mark.usefixtures("engine_importable")
class TestOrder:
    def test_before_the_engine_is_imported(self, release, settings):
        session = plugin.start(settings)
        assert not [name for name in sys.modules if name.partition(".")[0] == "sglang"], "we import nothing of it"
        assert {seam.state for seam in session.seams} == {SeamState.PENDING}
        assert len(served(release, session).ring().of(Kind.ADMIT)) == 1

    def test_after_the_engine_is_imported(self, release, settings):
        importlib.import_module(SCHEDULER)
        session = plugin.start(settings)
        assert len(served(release, session).ring().of(Kind.FINISH)) == 1

    def test_after_the_engine_runs_it_records_nothing_but_is_in_place(self, release, settings):
        """The ring belongs to a scheduler's start; one that has started before us has no ring."""
        engine = launch(release, None)
        session = plugin.start(settings)
        engine.serve("first", PROMPT)
        assert session.recorder is None

    def test_in_the_middle_of_the_imports(self, release, settings):
        importlib.import_module("sglang.srt.managers.cache_controller")
        session = plugin.start(settings)
        assert len(served(release, session).ring().of(Kind.BACKUP)) == 1

    def test_while_the_engine_is_imported_in_a_thread(self, release, settings):
        session = plugin.start(settings)
        thread = threading.Thread(target=importlib.import_module, args=(SCHEDULER,))
        thread.start()
        thread.join()
        assert len(served(release, session).ring().of(Kind.ADMIT)) == 1

    def test_twice_is_once(self, release, settings):
        session = plugin.start(settings)
        importlib.import_module(SCHEDULER)
        before = functions()
        assert plugin.start(settings) is session
        assert changed(before, functions()) == set()
        assert len(served(release, session).ring().of(Kind.ADMIT)) == 1

    def test_called_back_twice_for_one_module_is_once(self, release, settings):
        """As when another import hook loads through our loader more than once."""
        session = plugin.start(settings)
        importlib.import_module(SCHEDULER)
        before = functions()
        for name, callback in plugin.import_hook._watch.waiting.items():
            if name in sys.modules:
                callback(sys.modules[name])
        assert changed(before, functions()) == set()
        assert len(served(release, session).ring().of(Kind.ADMIT)) == 1

    def test_and_reloaded_modules_are_attached_again(self, release, settings):
        session = plugin.start(settings)
        module = importlib.import_module("sglang.srt.managers.schedule_batch")
        importlib.reload(module)
        assert len(served(release, session).ring().of(Kind.ADMIT)) == 1

    def test_an_import_that_failed_is_attached_when_it_succeeds(self, release, settings, monkeypatch):
        session = plugin.start(settings)
        monkeypatch.setitem(sys.modules, "engine_parts", None)
        with pytest.raises(ImportError):
            importlib.import_module(SCHEDULER)
        monkeypatch.delitem(sys.modules, "engine_parts")
        assert len(served(release, session).ring().of(Kind.ADMIT)) == 1


@pytest.mark.usefixtures("engine_importable")
class TestLettingGo:
    def test_puts_every_function_back(self, release, settings):
        importlib.import_module(SCHEDULER)
        before = functions()
        plugin.start(settings)
        assert changed(before, functions())
        assert plugin.stop() is True
        assert changed(before, functions()) == set()
        assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("hicache")]

    def test_without_having_started_is_nothing(self):
        assert plugin.stop() is True

    def test_closes_the_ring(self, release, settings):
        session = plugin.start(settings)
        engine = served(release, session)
        path = session.recorder.path
        plugin.stop()
        head = Engine(release, None, _Closed(path)).ring().head
        engine.serve("after", [*PROMPT, 7])
        ring = Engine(release, None, _Closed(path)).ring()
        assert ring.closed > 0
        assert ring.head == head

    def test_and_attaching_again_counts_once(self, release, settings):
        plugin.start(settings)
        importlib.import_module(SCHEDULER)
        plugin.stop()
        session = plugin.start(settings)
        assert len(served(release, session).ring().of(Kind.ADMIT)) == 1

    def test_modules_imported_afterwards_are_not_touched(self, settings):
        plugin.start(settings)
        plugin.stop()
        importlib.import_module(SCHEDULER)
        assert not [name for name, function in functions().items() if _ours(function)]


@pytest.mark.usefixtures("engine_importable")
class TestForeignWrappers:
    def test_over_ours_stays_when_we_let_go_and_ours_passes_everything_through(self, release, settings):
        session = plugin.start(settings)
        engine = launch(release, session)
        calls = _wrap(engine, "prepare_for_extend")
        engine.serve("first", PROMPT)
        assert (len(calls), len(engine.ring().of(Kind.ADMIT))) == (1, 1)
        head, path = engine.ring().head, session.recorder.path
        theirs = vars(_batch(engine))["prepare_for_extend"]
        assert plugin.stop() is False
        assert vars(_batch(engine))["prepare_for_extend"] is theirs
        engine.serve("second", [*PROMPT, 7])
        assert len(calls) == 2
        assert Engine(release, None, _Closed(path)).ring().head == head

    def test_over_ours_and_then_we_come_again(self, release, settings, tmp_path):
        session = plugin.start(settings)
        engine = launch(release, session)
        calls = _wrap(engine, "prepare_for_extend")
        plugin.stop()
        session = plugin.start(Settings(folder=str(tmp_path / "again"), capacity=4096))
        engine = served(release, session)
        assert len(calls) == 1
        assert len(engine.ring().of(Kind.ADMIT)) == 1, "the older wrapper of ours below theirs is dead"

    def test_under_ours(self, release, settings):
        engine = launch(release, None)
        calls = _wrap(engine, "prepare_for_extend")
        theirs = vars(_batch(engine))["prepare_for_extend"]
        session = plugin.start(settings)
        engine = served(release, session)
        assert (len(calls), len(engine.ring().of(Kind.ADMIT))) == (1, 1)
        assert plugin.stop() is True
        assert vars(_batch(engine))["prepare_for_extend"] is theirs

    def test_under_ours_that_hides_the_signature_is_left_alone(self, release, settings):
        engine = launch(release, None)
        batch = _batch(engine)
        original = batch.prepare_for_extend
        batch.prepare_for_extend = hiding = lambda *args: original(*args)
        session = plugin.start(settings)
        engine = served(release, session)
        assert vars(batch)["prepare_for_extend"] is hiding
        assert engine.ring().seams["ScheduleBatch.prepare_for_extend"][0] is SeamState.UNRECOGNISED


@pytest.mark.usefixtures("engine_importable")
class TestAliases:
    """release_kv_cache is a function that other modules have imported by name before we came."""

    HOLDERS = ("sglang.srt.managers.scheduler", "sglang.srt.mem_cache.common")

    def held(self) -> list[object]:
        return [vars(sys.modules[name])["release_kv_cache"] for name in self.HOLDERS]

    @pytest.mark.parametrize("order", ["before", "after"])
    def test_are_one_wrapper_and_are_all_put_back(self, settings, order):
        if order == "before":
            plugin.start(settings)
        importlib.import_module(SCHEDULER)
        if order == "after":
            plugin.start(settings)
        one, other = self.held()
        assert one is other
        original = one.__wrapped__
        assert plugin.stop() is True
        assert self.held() == [original, original]

    def test_in_modules_that_are_no_modules_are_not_looked_for(self, settings, monkeypatch):
        class Lazy:
            def __getattr__(self, name):
                raise ImportError(f"{name}: this lazy module imports what it is asked for")

        monkeypatch.setitem(sys.modules, "sglang.lazy", Lazy())
        monkeypatch.setitem(sys.modules, "sglang.none", None)
        monkeypatch.setitem(sys.modules, "sglang.slots", object())
        importlib.import_module(SCHEDULER)
        session = plugin.start(settings)
        assert next(seam for seam in session.seams if seam.name == "release_kv_cache").state is SeamState.ATTACHED


def test_patched_functions_can_still_be_pickled_by_name(engine):
    """Spawned ranks get their target function by its name."""
    scheduler, common = type(engine.scheduler), engine.module("mem_cache.common")
    for function in (common.release_kv_cache, scheduler.process_batch_result, scheduler.__init__):
        assert pickle.loads(pickle.dumps(function)) is function


class TestHalfFailing:
    @pytest.mark.parametrize("release", RELEASES)
    def test_set_of_a_module_is_all_or_nothing_and_says_so(self, release, settings, monkeypatch, caplog):
        apply = plugin.Patch.apply

        def failing(patch):
            if patch.name == "process_batch_result":
                raise TypeError("cannot be set")
            apply(patch)

        monkeypatch.setattr(plugin.Patch, "apply", failing)
        with importable(release):
            session = plugin.start(settings)
            try:
                engine = launch(release, session)
                assert workload.run(engine)
                assert not any(_ours(item) for item in vars(type(engine.scheduler)).values())
                assert session.recorder is None, "the scheduler's start was one of them"
                states = {seam.name: seam.state for seam in session.seams}
                assert states["Scheduler.__init__"] is states["Scheduler.process_batch_result"] is SeamState.TRIPPED
                assert states["PrefillAdder.add_one_req"] is SeamState.ATTACHED
            finally:
                plugin.stop()
        [said] = [record.getMessage() for record in caplog.records if "not attached" in record.getMessage()]
        assert said == "hicache-witness: not attached to sglang.srt.managers.scheduler: TypeError('cannot be set')"


def test_seams_can_be_left_out_by_name(release, tmp_path):
    with running(release, tmp_path, {"seams_off": frozenset({"PrefillAdder.add_one_req"})}) as engine:
        engine.serve("first", PROMPT)
        assert engine.ring().of(Kind.LOOKUP) == []
        assert len(engine.ring().of(Kind.ADMIT)) == 1
        assert not _ours(engine.module("managers.schedule_policy").PrefillAdder.add_one_req)
        assert "PrefillAdder.add_one_req" not in engine.ring().seams


def _ours(function: object) -> bool:
    return "hicache_tracing" in getattr(getattr(function, "__code__", None), "co_filename", "")


def _batch(engine: Engine) -> type:
    return engine.module("managers.schedule_batch").ScheduleBatch


def _wrap(engine: Engine, name: str) -> list:
    """A well-behaved wrapper of somebody else's around a batch method; returns the list of its calls."""
    calls: list = []
    original = vars(_batch(engine))[name]

    @functools.wraps(original)
    def theirs(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    setattr(_batch(engine), name, theirs)
    return calls


class _Closed:
    """As much of a session as ``Engine.ring`` needs, after the real one has let go."""

    def __init__(self, path: str) -> None:
        self.recorder = self
        self.path = path
