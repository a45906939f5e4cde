"""Our side fails in every way at every seam: the engine does what it would have done without us, bit for bit."""

from __future__ import annotations

import sys
from collections import Counter
from functools import cache

import pytest

from hicache_tracing import plugin, recorder, session
from hicache_tracing.config import Settings
from hicache_tracing.guard import FAULTS_ALLOWED, Steps, around
from hicache_tracing.records import Kind, SeamState
from hicache_tracing.seams import ALL
from hicache_tracing.seams.base import Target
from hicache_tracing.session import Session

from . import workload
from .engines import RELEASES, Engine, importable, launch
from .engines import engine as running

TARGETS = {target.seam: target for target in ALL}
STEPS = ("before", "after")


class OurFault(Exception):  # noqa: N818
    pass


@cache
def untouched(release: str) -> list:
    """What the engine does when nobody is there."""
    with importable(release):
        return workload.run(launch(release, None))


@cache
def attached(release: str) -> frozenset[str]:
    """The seams that find their function in this fake engine."""
    with importable(release):
        session = plugin.start(Settings(folder="/nowhere"))
        try:
            __import__("sglang.srt.managers.scheduler")
            return frozenset(seam.name for seam in session.seams if seam.state is SeamState.ATTACHED)
        finally:
            plugin.stop()


def tripped(engine: Engine) -> set[str]:
    return {seam.name for seam in engine.session.seams if seam.state is SeamState.TRIPPED}


def failing(target: Target, calls: Counter, steps: tuple[str, ...] = STEPS) -> Target:
    """The same seam, whose steps raise: given both, the one before and the one after in turn."""

    def hooks(session: Session) -> Steps:
        sound = target.hooks(session)

        def broken_before(args, kwargs):
            if steps == STEPS and calls[target.seam] % 2:
                return sound.before(args, kwargs) if sound.before is not None else None
            raise _counted(target.seam)

        def broken_after(*_):
            raise _counted(target.seam)

        def _counted(seam: str) -> Exception:
            calls[seam] += 1
            return OurFault(seam)

        broken = {"before": broken_before, "after": broken_after, "idle": broken_after, "ending": broken_after}
        return sound._replace(
            **{step: broken[step] for step in steps if step in STEPS or getattr(sound, step) is not None}
        )

    return Target(target.module, target.owner, target.name, target.forms, hooks, target.unless)


CASES = [(release, seam) for release in RELEASES for seam in sorted(attached(release))]


@pytest.mark.parametrize(("release", "seam"), CASES)
def test_one_seam_fails(monkeypatch, tmp_path, release, seam):
    calls: Counter = Counter()
    monkeypatch.setattr(plugin, "ALL", tuple(failing(one, calls) if one.seam == seam else one for one in ALL))
    with running(release, tmp_path) as engine:
        assert workload.run(engine) == untouched(release)
        [failed] = [one for one in engine.session.seams if one.name == seam]
        assert failed.faults == calls[seam]
        assert failed.on is (calls[seam] < FAULTS_ALLOWED)
        assert (failed.state is SeamState.TRIPPED) is not failed.on
        assert calls[seam] or not failed.fired, "the workload must get there"
        others = {one.name: one.faults for one in engine.session.seams if one.faults and one is not failed}
        assert others == {}, "a fault in one seam is none in another"


@pytest.mark.parametrize("release", RELEASES)
class TestEverythingFailsAtOnce:
    @pytest.mark.parametrize("steps", [("before",), ("after",), STEPS, ("ending",), ("idle",)], ids="-".join)
    def test_every_step(self, monkeypatch, tmp_path, release, steps):
        calls: Counter = Counter()
        monkeypatch.setattr(plugin, "ALL", tuple(failing(target, calls, steps) for target in ALL))
        with running(release, tmp_path) as engine:
            for _ in range(3):
                assert workload.run(engine) == untouched(release)
            assert max(calls.values()) == FAULTS_ALLOWED, "a seam that is off is not asked again"

    def test_the_recorder(self, monkeypatch, tmp_path, release):
        def broken(*_args, **_kwargs):
            raise OSError("the ring is gone")

        with running(release, tmp_path) as engine:
            engine.session.write = engine.session.recorder.write = broken
            engine.session.recorder.seam = broken
            assert workload.run(engine) == untouched(release)
            assert not any(seam.on for seam in engine.session.seams if seam.faults)

    def test_the_clock(self, monkeypatch, tmp_path, release):
        def broken():
            raise OSError("no clock")

        with running(release, tmp_path) as engine:
            monkeypatch.setattr(recorder, "monotonic_ns", broken)
            monkeypatch.setattr("hicache_tracing.seams.memory.monotonic_ns", broken)
            assert workload.run(engine) == untouched(release)
            off = {seam.name for seam in engine.session.seams if not seam.on}
            assert len(off) > 10
            assert off == tripped(engine), "a seam that is off says so"
            assert engine.ring().dropped > 10, "what could not be written is counted"

    def test_reading_the_engines_objects(self, monkeypatch, tmp_path, release):
        """Attributes that raise when we look: what an engine of tomorrow may do to us."""
        with running(release, tmp_path) as engine:
            for hostile in _classes(engine):
                monkeypatch.setattr(hostile, "__getattribute__", _hostile_to_us(), raising=False)
            for _ in range(3):
                assert workload.run(engine) == untouched(release)
            assert len(tripped(engine)) >= 8

    def test_the_witness(self, monkeypatch, tmp_path, release):
        class Witness:
            def __getattr__(self, name):
                def broken(*_args, **_kwargs):
                    raise MemoryError(name)

                return broken

        monkeypatch.setattr(session, "make_witness", lambda *_: Witness())
        with running(release, tmp_path, {"content": "full"}) as engine:
            assert engine.session.witness is not None
            for _ in range(3):
                assert workload.run(engine) == untouched(release)
            assert tripped(engine)

    def test_the_recorder_never_opened(self, monkeypatch, tmp_path, release):
        (tmp_path / "file").touch()
        with running(release, tmp_path / "file" / "folder") as engine:
            assert engine.session.recorder is None
            assert workload.run(engine) == untouched(release)

    def test_the_identity(self, monkeypatch, tmp_path, release):
        def broken(*_):
            raise OurFault

        monkeypatch.setattr("hicache_tracing.session.identity_of", broken)
        with running(release, tmp_path) as engine:
            assert workload.run(engine) == untouched(release)


class TestEveryFormOfEverySeam:
    """Each known form of each function, also of trees that the fake engines have not: called with objects that answer
    nothing, it returns and raises what it would have, and its seam switches itself off.
    """

    @pytest.mark.parametrize("seam", TARGETS)
    def test_returns_and_raises_the_very_same(self, tmp_path, seam):
        target = TARGETS[seam]
        for form in target.forms:
            session = Session(Settings(folder=str(tmp_path), capacity=1024))
            session.open()
            session.controller = session.tree = hostile = Hostile()
            state = session.new_seam(seam)
            error, result = ValueError("the engine's own"), object()
            scope: dict = {}
            exec(f"def call({', '.join(form)}, *more, **named):\n    return answer()", scope)
            wrapper = around(scope["call"], state, *target.hooks(session))
            scope["answer"] = lambda result=result: result
            arguments = [hostile] * len(form)
            for _ in range(20):
                assert wrapper(*arguments) is result
                assert wrapper(arguments[0], **dict(zip(form[1:], arguments[1:], strict=True))) is result
            scope["answer"] = lambda error=error: (_ for _ in ()).throw(error)
            with pytest.raises(ValueError, match="the engine's own") as caught:
                wrapper(*arguments)
            assert caught.value is error
            assert state.on is (state.faults < FAULTS_ALLOWED)


class Hostile:
    """Answers no question of ours."""

    def __getattr__(self, name):
        raise OurFault(name)

    def __len__(self):
        raise OurFault("len")

    def __iter__(self):
        raise OurFault("iter")

    def __bool__(self):
        raise OurFault("bool")

    def __eq__(self, other):
        raise OurFault("eq")

    __hash__ = None


def _classes(engine: Engine) -> list[type]:
    policy, batch = engine.module("managers.schedule_policy"), engine.module("managers.schedule_batch")
    return [policy.PrefillAdder, batch.Req, batch.ScheduleBatch, type(engine.tree), type(engine.tree.cache_controller)]


def _hostile_to_us():
    def read(self, name):
        if sys._getframe(1).f_globals.get("__name__", "").startswith("hicache_tracing"):
            raise RuntimeError(f"{name} is none of your business")
        return object.__getattribute__(self, name)

    return read


class TestAFaultMakesNoFalseWitness:
    """What a fault costs is the fact at hand, never the truth of another."""

    def test_a_lookup_that_failed_leaves_no_request_in_charge(self, monkeypatch, tmp_path, release):
        with running(release, tmp_path, hicache_write_policy="write_back") as engine:
            engine.serve("first", workload.PROMPT)
            engine.scheduler.token_budget = 0
            req = engine.scheduler.receive("refused", list(range(1000, 1100)))
            monkeypatch.setattr(type(req), "origin_input_ids", property(_not_for_us("origin")), raising=False)
            req.origin = list(range(1000, 1100))
            engine.steps()
            engine.scheduler.evict(300)
            assert [record.rid for record in engine.ring().of(Kind.BACKUP)] == [""]

    def test_a_load_back_that_failed_does_not_go_on_for_ever(self, monkeypatch, tmp_path, release):
        with running(release, tmp_path) as engine:
            engine.serve("first", workload.PROMPT)
            engine.scheduler.evict(300)
            monkeypatch.setattr(session.dialects, "node_id", lambda _node: (_ for _ in ()).throw(OurFault()))
            engine.serve("again", [*workload.PROMPT, 7])
            assert engine.session.load_scope is None
            assert [record.rid for record in engine.ring().of(Kind.BACKUP)] == ["first", "again"]


class TestTheEnginesOwnFault:
    """A function of the engine's that raises ends the scope that it worked in: the next backup is not the request's."""

    @pytest.fixture
    def raising(self, engine, monkeypatch):
        """Puts a function that raises in the place of one deep in the engine; gives the error."""

        def put(owner: type, name: str) -> EngineFault:
            error = EngineFault(name)

            def fails(*_args, **_kwargs):
                raise error

            monkeypatch.setattr(owner, name, fails)
            return error

        return put

    def fails(self, engine: Engine, error: EngineFault) -> None:
        with pytest.raises(EngineFault) as caught:
            engine.steps()
        assert caught.value is error
        assert error.__context__ is None
        assert (engine.session.rid, engine.session.load_scope) == ("", None)
        assert [seam.faults for seam in engine.session.seams if seam.faults] == []

    def test_in_the_lookup(self, engine, raising):
        engine.serve("first", workload.PROMPT)
        engine.scheduler.evict(300)
        engine.scheduler.receive("again", [*workload.PROMPT, 7])
        self.fails(engine, raising(type(engine.tree), "init_load_back"))

    def test_in_the_load_back(self, engine, raising):
        engine.serve("first", workload.PROMPT)
        engine.scheduler.evict(300)
        engine.scheduler.receive("again", [*workload.PROMPT, 7])
        self.fails(engine, raising(type(engine.tree.cache_controller), "load"))
        assert engine.ring().of(Kind.LOAD_BACK) == [], "nothing is told of a load-back that never ended"

    def test_in_the_insertion(self, engine, raising):
        engine.scheduler.receive("first", workload.PROMPT)
        self.fails(engine, raising(type(engine.tree.cache_controller), "write"))

    def test_an_inner_scope_gives_back_to_the_outer(self, engine):
        session = engine.session
        outer = session.enter("outer")
        inner = session.enter("inner")
        assert session.rid == "inner"
        session.leave(inner)
        assert session.rid == "outer"
        session.leave(outer)
        assert session.rid == ""


class EngineFault(Exception):  # noqa: N818
    pass


def _not_for_us(name: str):
    def read(self):
        if sys._getframe(1).f_globals.get("__name__", "").startswith("hicache_tracing"):
            raise OurFault(name)
        return vars(self)[name]

    return read
