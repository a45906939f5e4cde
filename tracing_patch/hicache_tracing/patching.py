"""Replace one attribute of an engine class or module, and put it back only if it is still ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Patch:
    """``owner.name`` replaced by ``wrap(original)``."""

    def __init__(self, owner: Any, name: str, wrap: Wrap) -> None:
        self.owner = owner
        self.name = name
        self.original = vars(owner)[name]
        self.wrapper = wrap(self.original)

    def apply(self) -> None:
        setattr(self.owner, self.name, self.wrapper)

    def revert(self) -> bool:
        """True if the original is back. False: somebody wrapped it after us, and theirs stays in place."""
        if vars(self.owner).get(self.name) is not self.wrapper:
            return False
        setattr(self.owner, self.name, self.original)
        return True


def apply_all(patches: Iterable[Patch]) -> list[Patch]:
    """Apply all or none; raises what the failing one raised."""
    done: list[Patch] = []
    try:
        for patch in patches:
            patch.apply()
            done.append(patch)
    except Exception:
        for patch in reversed(done):
            patch.revert()
        raise
    return done


def defines(owner: Any, name: str) -> bool:
    """Whether the owner itself (not a base class) defines the attribute."""
    return name in getattr(owner, "__dict__", ())


def recognised(function: Any, parameters: tuple[str, ...]) -> bool:
    """Whether it is a plain function that takes the parameters we rely on, in that order, and only then others.

    A generator or a coroutine function has done nothing yet when its call returns: not what we know.
    """
    if not isinstance(function, FunctionType) or function.__code__.co_flags & LATER:
        return False
    try:
        names = tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    return names[: len(parameters)] == parameters
