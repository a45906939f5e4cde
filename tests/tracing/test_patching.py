"""Replacing one attribute, putting it back only while it is ours, all of a set or none, and only what is as known."""

from __future__ import annotations

import functools
from types import ModuleType

import pytest

from hicache_tracing.patching import Patch, apply_all, defines, recognised


def wrap(original):
    return functools.wraps(original)(lambda *args: ("ours", original(*args)))


def engine_class():
    class Tree:
        def match(self):
            return "match"

        def load(self):
            return "load"

    return Tree


class TestPatch:
    def test_is_applied_and_taken_back(self):
        tree = engine_class()
        original = tree.match
        patch = Patch(tree, "match", wrap)
        assert tree.match is original, "making one changes nothing"
        patch.apply()
        assert tree().match() == ("ours", "match")
        assert patch.revert() is True
        assert tree.match is original
        assert patch.revert() is False, "there is nothing of ours left to take back"

    def test_below_a_foreign_wrapper_leaves_that_in_place(self):
        tree = engine_class()
        patch = Patch(tree, "match", wrap)
        patch.apply()
        ours = tree.match
        tree.match = foreign = lambda self: ("theirs", ours(self))
        assert patch.revert() is False
        assert tree.match is foreign
        assert tree().match() == ("theirs", ("ours", "match"))

    def test_above_a_foreign_wrapper_gives_that_back(self):
        tree = engine_class()
        original = tree.match
        tree.match = foreign = lambda self: ("theirs", original(self))
        patch = Patch(tree, "match", wrap)
        patch.apply()
        assert tree().match() == ("ours", ("theirs", "match"))
        assert patch.revert() is True
        assert tree.match is foreign

    def test_of_an_attribute_that_was_deleted_meanwhile_puts_nothing_back(self):
        tree = engine_class()
        patch = Patch(tree, "match", wrap)
        patch.apply()
        del tree.match
        assert patch.revert() is False
        assert not hasattr(tree, "match")


class TestSet:
    def test_half_failing_leaves_nothing_behind(self):
        class Frozen(type):
            def __setattr__(cls, name, value):
                raise TypeError("this class cannot be patched")

        class Controller(metaclass=Frozen):
            def write(self):
                return "write"

        tree = engine_class()
        originals = tree.match, tree.load
        patches = [Patch(tree, "match", wrap), Patch(tree, "load", wrap), Patch(Controller, "write", wrap)]
        with pytest.raises(TypeError, match="cannot be patched"):
            apply_all(patches)
        assert (tree.match, tree.load) == originals

    def test_whole_is_returned(self):
        tree = engine_class()
        patches = [Patch(tree, "match", wrap), Patch(tree, "load", wrap)]
        assert apply_all(patches) == patches


class TestDefines:
    def test_only_what_the_class_itself_defines(self):
        class Special(engine_class()):
            def load(self):
                return super().load()

        assert defines(Special, "load")
        assert not defines(Special, "match"), "patching the inherited one would count a call twice"

    @pytest.mark.parametrize("owner", [None, 3, object(), "text"])
    def test_nothing_is_defined_by_what_is_no_class(self, owner):
        assert not defines(owner, "match")

    def test_a_function_of_a_module(self):
        module = ModuleType("m")
        module.release = lambda: None
        assert defines(module, "release")


class TestRecognised:
    @pytest.mark.parametrize(
        ("function", "known"),
        [
            (lambda self, req: 0, True),
            (lambda self, req, more=1, *args, **kwargs: 0, True),
            (lambda self, req=None: 0, True),
            (lambda self, *, req: 0, True),
            (lambda self: 0, False),
            (lambda req, self: 0, False),
            (lambda self, request: 0, False),
            (lambda *args, **kwargs: 0, False),
            (len, False),
            (functools.partial(lambda self, req: 0), False),
            (staticmethod(lambda self, req: 0), False),
            (property(lambda self, req: 0), False),
            (None, False),
            (3, False),
        ],
    )
    def test_by_its_leading_parameters(self, function, known):
        assert recognised(function, ("self", "req")) is known

    def test_behind_a_decorator_that_keeps_the_signature(self):
        def host(self, req):
            pass

        @functools.wraps(host)
        def marked(*args, **kwargs):
            return host(*args, **kwargs)

        assert recognised(marked, ("self", "req"))

    def test_but_not_what_has_done_nothing_yet_when_its_call_returns(self):
        def generator(self, req):
            yield req

        async def coroutine(self, req):
            return req

        async def both(self, req):
            yield req

        assert not any(recognised(function, ("self", "req")) for function in (generator, coroutine, both))

    def test_nor_what_lies_about_itself(self):
        def host(self, req):
            pass

        host.__signature__ = "none of your business"
        assert not recognised(host, ("self", "req"))
