"""What stands around an engine function: the engine's call as it was, and ours, which may fail as it likes."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import sys
import traceback
import weakref

import pytest

from hicache_tracing.guard import FAULTS_ALLOWED, Gate, Seam, Steps, around
from hicache_tracing.records import SeamState


class Watched:
    """A seam over a host function, with steps that note what they see and fail when told to."""

    def __init__(self, host, *, fail: str = "", changed=lambda _seam: None) -> None:
        self.fail = fail
        self.seen: list[tuple] = []
        self.seam = Seam("Tree.match", changed)
        self.call = around(host, self.seam, self.before, self.after)

    def before(self, args, kwargs):
        self.seen.append(("before", args, kwargs))
        if self.fail == "before":
            raise RuntimeError("ours")
        return "token"

    def after(self, token, result, args, kwargs):
        self.seen.append(("after", token, result, args, kwargs))
        if self.fail == "after":
            raise RuntimeError("ours")


FAILING = ["", "before", "after"]


class TestTheEnginesCall:
    @pytest.mark.parametrize("fail", FAILING)
    def test_gets_the_very_arguments_and_returns_the_very_result(self, fail):
        given, keyword, result = object(), object(), object()
        got = []

        def host(*args, **kwargs):
            got.append((args, kwargs))
            return result

        watched = Watched(host, fail=fail)
        assert watched.call(given, name=keyword) is result
        [(args, kwargs)] = got
        assert args[0] is given
        assert kwargs["name"] is keyword

    @pytest.mark.parametrize("fail", FAILING)
    @pytest.mark.parametrize("error", [ValueError("host"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
    def test_raises_the_very_exception_with_nothing_of_ours_in_it(self, fail, error):
        def host():
            raise error

        watched = Watched(host, fail=fail)
        with pytest.raises(type(error)) as caught:
            watched.call()
        assert caught.value is error
        assert error.__context__ is None
        assert error.__cause__ is None
        assert not getattr(error, "__notes__", None)
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert names[-2:] == ["wrapper", "host"]
        assert "before" not in names
        assert "after" not in names
        assert ("before", (), {}) in watched.seen
        assert all(step[0] == "before" for step in watched.seen), "a call that failed has no result to look at"

    @pytest.mark.parametrize("fail", FAILING)
    def test_inside_an_except_block_still_sees_the_exception_under_way(self, fail):
        watched = Watched(lambda: sys.exc_info()[1], fail=fail)
        outer = ValueError("the engine handles this one")
        try:
            raise outer
        except ValueError:
            assert watched.call() is outer
        assert outer.__context__ is None
        assert outer.__traceback__.tb_next is None

    def test_may_call_itself(self):
        def host(depth):
            return 1 + watched.call(depth - 1) if depth else 0

        watched = Watched(host)
        assert watched.call(3) == 3
        assert [step[0] for step in watched.seen] == ["before"] * 4 + ["after"] * 4

    def test_may_return_a_generator_or_a_coroutine_which_is_left_alone(self):
        def numbers():
            received = yield 1
            yield received

        async def answer():
            return 42

        generator = Watched(numbers).call()
        assert next(generator) == 1
        assert generator.send("sent") == "sent"
        assert asyncio.run(Watched(answer).call()) == 42

    def test_of_a_method_stays_a_method(self):
        class Tree:
            def match(self, key, *, limit=None):
                """Longest prefix."""
                return self, key, limit

        original = Tree.match
        watched = Watched(original)
        Tree.match = watched.call
        tree = Tree()
        assert tree.match("k", limit=2) == (tree, "k", 2)
        assert Tree.match.__wrapped__ is original
        assert Tree.match.__name__ == "match"
        assert Tree.match.__qualname__ == original.__qualname__
        assert Tree.match.__module__ == original.__module__
        assert Tree.match.__doc__ == "Longest prefix."
        assert inspect.signature(Tree.match) == inspect.signature(original)
        assert inspect.signature(tree.match) == inspect.signature(original.__get__(tree))

    def test_keeps_marks_that_the_engine_put_on_the_function(self):
        def host():
            pass

        host.is_rank_consensus = True
        assert Watched(host).call.is_rank_consensus is True

    @pytest.mark.parametrize("fail", FAILING)
    def test_leaves_nothing_alive_behind_it(self, fail, caplog):
        """No token, argument or traceback of ours may keep a tensor of the engine's, not even in a log record."""

        class Tensor:
            pass

        watched = Watched(lambda tensor: tensor, fail=fail)
        tensor = Tensor()
        gone = weakref.ref(tensor)
        watched.call(tensor)
        watched.seen.clear()
        del tensor
        assert gone() is None
        assert len(caplog.records) == bool(fail)


class TestOurFaults:
    @pytest.mark.parametrize("fail", ["before", "after"])
    def test_switch_the_seam_off_after_five(self, fail):
        watched = Watched(lambda: "result", fail=fail)
        for i in range(20):
            assert watched.call() == "result"
            assert watched.seam.on is (i + 1 < FAULTS_ALLOWED)
        assert watched.seam.faults == FAULTS_ALLOWED == 5
        assert watched.seam.state is SeamState.TRIPPED
        assert len([step for step in watched.seen if step[0] == fail]) == FAULTS_ALLOWED

    def test_before_means_no_after(self):
        watched = Watched(lambda: None, fail="before")
        watched.call()
        assert [step[0] for step in watched.seen] == ["before"]

    def test_are_logged_when_they_begin_and_when_the_seam_goes_off(self, caplog):
        watched = Watched(lambda: None, fail="after")
        for _ in range(20):
            watched.call()
        assert [record.getMessage() for record in caplog.records] == [
            "hicache-witness: fault in seam Tree.match (the engine is not affected): RuntimeError('ours')",
            "hicache-witness: seam Tree.match switched itself off after 5 faults",
        ]

    def test_are_told_each_time(self):
        told = []
        watched = Watched(lambda: None, fail="after", changed=lambda seam: told.append((seam.faults, seam.state)))
        for _ in range(20):
            watched.call()
        assert told == [
            *((faults, SeamState.PENDING) for faults in range(1, FAULTS_ALLOWED)),
            (FAULTS_ALLOWED, SeamState.TRIPPED),
        ]

    @pytest.mark.parametrize("fail", FAILING)
    def test_in_the_bookkeeping_itself_silence_the_seam(self, fail):
        def broken(_seam):
            raise OSError("ring gone")

        watched = Watched(lambda: "result", fail=fail, changed=broken)
        assert watched.call() == "result"
        assert watched.seam.on is False

    def test_that_nobody_can_print_stay_with_us(self, caplog):
        class UnprintableError(Exception):
            def __repr__(self):
                raise RuntimeError("no repr")

        def before(_args, _kwargs):
            raise UnprintableError

        seam = Seam("Tree.match", lambda _: None)
        call = around(lambda: "result", seam, before, lambda *_: None)
        assert call() == "result"
        assert seam.faults == 1
        assert caplog.records == []

    @pytest.mark.parametrize("where", ["handler", "filter", "factory"])
    def test_in_the_engines_own_logging_stay_with_us(self, where):
        """The engine's log may be wired to anything; a fault of ours must not be the one that meets its bugs."""

        def broken(*_args, **_kwargs):
            raise RuntimeError("logging is broken")

        logger = logging.getLogger("hicache_witness")
        handler, factory = logging.Handler(), logging.getLogRecordFactory()
        handler.emit = broken
        logger.addHandler(handler)
        if where == "filter":
            logger.addFilter(broken)
        if where == "factory":
            logging.setLogRecordFactory(broken)
        try:
            watched = Watched(lambda: "result", fail="before")
            assert [watched.call() for _ in range(7)] == ["result"] * 7
            assert watched.seam.state is SeamState.TRIPPED
        finally:
            logging.setLogRecordFactory(factory)
            logger.removeFilter(broken)
            logger.removeHandler(handler)

    def test_of_running_out_of_stack_or_memory_are_faults_like_others(self):
        for error in (RecursionError(), MemoryError()):

            def before(_args, _kwargs, error=error):
                raise error

            seam = Seam("Tree.match", lambda _: None)
            assert around(lambda: "result", seam, before, lambda *_: None)() == "result"
            assert seam.faults == 1

    def test_do_not_include_the_interrupts_of_the_process(self):
        """A signal that arrives in our code is the engine's to handle, exactly as if we had not been there."""

        def before(_args, _kwargs):
            raise KeyboardInterrupt

        seam = Seam("Tree.match", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            around(lambda: "result", seam, before, lambda *_: None)()
        assert seam.faults == 0


class TestOff:
    def test_a_seam_that_is_off_looks_at_one_attribute_and_calls_the_engine(self):
        class OnlyOn:
            on = False

            def __getattr__(self, name):
                raise AssertionError(f"looked at {name}")

        def never(*_):
            raise AssertionError("called")

        call = around(lambda *args, **kwargs: (args, kwargs), OnlyOn(), never, never)
        assert call(1, a=2) == ((1,), {"a": 2})

    def test_the_first_call_is_told_and_no_later_one(self):
        told = []
        watched = Watched(lambda: None, changed=lambda seam: told.append(seam.fired))
        for _ in range(3):
            watched.call()
        assert told == [True]


class TestAFunctionThatPolls:
    """``idle`` is asked first; where it says yes, nothing else of ours runs."""

    def call(self, idle, told=None):
        seam = Seam("Tree.check", lambda seam: None if told is None else told.append(seam.fired))
        steps = Steps(lambda _args, _kwargs: self.ran.append("before"), lambda *_: self.ran.append("after"), idle=idle)
        self.ran: list[str] = []
        return seam, around(lambda *args, **kwargs: (args, kwargs), seam, *steps)

    def test_that_has_nothing_to_tell_is_the_engines_own_call(self):
        told: list[bool] = []
        seam, call = self.call(lambda args: args == (1,), told)
        assert call(1, a=2) == ((1,), {"a": 2})
        assert call(1) == ((1,), {})
        assert (self.ran, seam.faults) == ([], 0)
        assert told == [True], "that it has been called is told, once"

    def test_that_has_something_to_tell_takes_every_step(self):
        seam, call = self.call(lambda args: args == (1,))
        assert call(2, a=2) == ((2,), {"a": 2})
        assert (self.ran, seam.fired) == (["before", "after"], True)

    def test_that_cannot_be_asked_is_a_fault(self):
        seam, call = self.call(lambda args: args[0].queue == [])
        assert [call(1) for _ in range(7)] == [((1,), {})] * 7
        assert (self.ran, seam.faults, seam.state) == ([], FAULTS_ALLOWED, SeamState.TRIPPED)

    def test_raises_what_the_engine_raises_with_nothing_of_ours_in_it(self):
        error = ValueError("host")

        def host():
            raise error

        for idle in (True, False):
            seam = Seam("Tree.check", lambda _: None)
            with pytest.raises(ValueError, match="host") as caught:
                around(host, seam, idle=lambda _args, idle=idle: idle)()
            assert caught.value is error
            assert error.__context__ is None


class Tree:
    def check(self):
        return [self]


class TestAGate:
    """Of a function that polls for what we know ourselves: while it is shut, its call is the engine's own."""

    def test_is_open_at_first_and_may_be_shut(self):
        seam, gate, ran = Seam("Tree.check", lambda _: None), Gate(), []
        call = around(lambda *args, **kwargs: (args, kwargs), seam, after=lambda *_: ran.append("after"), gate=gate)
        assert call(1, a=2) == ((1,), {"a": 2})
        assert (ran, seam.fired) == (["after"], True)
        gate.open = False
        assert call(1, a=2) == ((1,), {"a": 2})
        gate.open = True
        call(3)
        assert ran == ["after", "after"]

    @pytest.mark.parametrize("shut", [False, True])
    def test_a_seam_that_is_off_is_off_behind_it(self, shut):
        def never(*_):
            raise AssertionError("called")

        seam, gate = Seam("Tree.check", lambda _: None), Gate()
        seam.on, gate.open = False, not shut
        assert around(lambda: "result", seam, never, never, gate=gate)() == "result"

    @pytest.mark.parametrize("is_open", [False, True])
    @pytest.mark.parametrize(
        "polls",
        [
            lambda self: (self,),
            lambda self, allow=None: (self, allow),
            lambda self, *more: (self, *more),
            lambda self, **more: (self, more),
            lambda self, *, sync=1: (self, sync),
            lambda self, /: (self,),
            lambda tree: (tree,),
            lambda call, gate=1, wrapper=2, poll=3: (call, gate, wrapper, poll),
        ],
        ids=["self", "default", "args", "kwargs", "keyword", "by place", "another name", "our names"],
    )
    def test_whatever_the_function_takes_arrives(self, polls, is_open):
        gate = Gate()
        call = around(polls, Seam("Tree.check", lambda _: None), after=lambda *_: None, gate=gate)
        gate.open = is_open
        name = polls.__code__.co_varnames[0]
        assert call("tree") == polls("tree")
        assert outcome_of(call, **{name: "tree"}) == outcome_of(polls, **{name: "tree"})
        for given, words in (((1,), {}), ((), {"allow": 2}), ((), {"sync": 3})):
            outcomes = [outcome_of(function, "tree", *given, **words) for function in (polls, call)]
            assert outcomes[0] == outcomes[1]

    @pytest.mark.parametrize("is_open", [False, True])
    @pytest.mark.parametrize(
        "polls",
        [
            lambda self="default": (self,),
            "text".upper,
            functools.partial(lambda self, more: (self, more), "partial"),
            Tree().check,
        ],
        ids=["default", "built in", "partial", "bound"],
    )
    def test_and_what_it_can_do_without_may_be_left_out(self, polls, is_open):
        gate = Gate()
        call = around(polls, Seam("Tree.check", lambda _: None), after=lambda *_: None, gate=gate)
        gate.open = is_open
        for given in ((), ("tree",), ("tree", 1)):
            assert outcome_of(call, *given) == outcome_of(polls, *given)

    def test_says_in_a_traceback_whose_it_is(self):
        def check(self):
            raise ValueError("host")

        gate = Gate()
        gate.open = False
        with pytest.raises(ValueError, match="host") as caught:
            around(check, Seam("Tree.check", lambda _: None), after=lambda *_: None, gate=gate)("tree")
        assert [entry.frame.code.path for entry in caught.traceback][1] == "<gate of hicache-witness>"

    @pytest.mark.parametrize("is_open", [False, True])
    def test_stays_a_method_that_subclasses_extend_and_others_wrap(self, is_open):
        def theirs(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return ["theirs", *function(*args, **kwargs)]

            return wrapper

        class Base(Tree):
            check = Tree.check

        class Sub(Base):
            def check(self):
                return ["sub", *super().check()]

        gate = Gate()
        gate.open = is_open
        Base.check = around(Base.check, Seam("Base.check", lambda _: None), after=lambda *_: None, gate=gate)
        Base.check = theirs(Base.check)
        tree = Sub()
        assert tree.check() == ["sub", "theirs", tree]
        assert inspect.signature(Base.check) == inspect.signature(Tree.check)


def outcome_of(function, *given, **words):
    try:
        return function(*given, **words)
    except TypeError:
        return TypeError
