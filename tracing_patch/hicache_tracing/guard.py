"""What stands between our code and the engine's: a shield around every step of ours, and a breaker per seam."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any, NamedTuple

from hicache_tracing.records import SeamState

logger = logging.getLogger("hicache_witness")

FAULTS_ALLOWED = 5

Before = Callable[[tuple[Any, ...], dict[str, Any]], Any]
After = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], None]
Ending = Callable[[Any], None]
Idle = Callable[[tuple[Any, ...]], bool]


class Gate:
    """Of a function that is called all the time: shut while nothing of ours is under way that a call could end."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open = True  # the first call is looked at


class Steps(NamedTuple):
    """What a seam does around a call of its engine function. Each step is shielded; one that is None costs nothing."""

    before: Before | None = None
    """``before(args, kwargs)`` returns the token that the later steps get."""
    after: After | None = None
    """``after(token, result, args, kwargs)``: the engine's function has returned."""
    ending: Ending | None = None
    """``ending(token)`` takes back what ``before`` put up for the time of the call, also when the function raises."""
    idle: Idle | None = None
    """``idle(args)`` is asked first: True where this call, as most of a function that polls, has nothing to tell."""
    gate: Gate | None = None
    """The same without a question, for what we know ourselves: while it is shut, nothing else of ours is looked at."""


class Seam:
    """The state of one patched engine function. ``on`` is the only thing its wrapper looks at when it is off."""

    __slots__ = ("changed", "faults", "fired", "name", "on", "owner", "state")

    def __init__(self, name: str, changed: Callable[[Seam], None]) -> None:
        self.name = name
        self.changed = changed
        self.owner: Any = None  # the class or module whose function is patched
        self.state = SeamState.PENDING
        self.on = True
        self.fired = False
        self.faults = 0

    def set(self, state: SeamState) -> None:
        self.state = state
        self._tell()

    def fire(self) -> None:
        self.fired = True
        self._tell()

    def fault(self, error: Exception) -> None:
        """Count a fault of ours; log the first; after FAULTS_ALLOWED switch the seam off until the process ends."""
        self.faults += 1
        if self.faults == 1:
            say("fault in seam %s (the engine is not affected): %r", self.name, error)
        if self.faults >= FAULTS_ALLOWED and self.on:
            self.on = False
            self.state = SeamState.TRIPPED
            say("seam %s switched itself off after %d faults", self.name, self.faults)
        self._tell()

    def _tell(self) -> None:
        try:
            self.changed(self)
        except Exception:  # not even our own book-keeping works: be silent, and say so where that still can be
            self.on = False
            self.state = SeamState.TRIPPED
            with suppress(Exception):
                self.changed(self)


def say(message: str, *values: object) -> None:
    """One line in the engine's log. What its filters and handlers raise stays here; they get text, not exceptions of
    ours, whose tracebacks would keep the engine's tensors alive.
    """
    with suppress(Exception):
        logger.warning("hicache-witness: %s", message % values)


def around(
    call: Callable[..., Any],
    seam: Seam,
    before: Before | None = None,
    after: After | None = None,
    ending: Ending | None = None,
    idle: Idle | None = None,
    gate: Gate | None = None,
) -> Callable[..., Any]:
    """The wrapper of an engine function, with the Steps of its seam.

    The engine's own call stands outside every ``except``: its arguments, result and exception pass through untouched.
    """

    @functools.wraps(call)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not seam.on:
            return call(*args, **kwargs)
        token = ready = None
        try:
            if before is not None:
                token = before(args, kwargs)
            ready = True
        except Exception as error:
            seam.fault(error)
        if ending is None or not ready:
            result = call(*args, **kwargs)
        else:
            try:
                result = call(*args, **kwargs)
            finally:
                try:
                    ending(token)
                except Exception as error:
                    seam.fault(error)
        try:
            if ready and after is not None:
                after(token, result, args, kwargs)
            if not seam.fired:
                seam.fire()
        except Exception as error:
            seam.fault(error)
        return result

    if gate is not None:
        return _through(gate, call, wrapper)
    return wrapper if idle is None else _unless(idle, call, wrapper, seam)


def _through(gate: Gate, call: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Most of a request's calls come here with the gate shut. Where all parameters have names, the function that stands
    here has the very same: packing arguments and unpacking them again would take longer than all else.
    """

    def poll(*args: Any, **kwargs: Any) -> Any:
        return wrapper(*args, **kwargs) if gate.open else call(*args, **kwargs)

    return functools.wraps(call)(_of_the_same_parameters(gate, call, wrapper) or poll)


def _of_the_same_parameters(gate: Gate, call: Callable[..., Any], wrapper: Callable[..., Any]) -> FunctionType | None:
    """``poll`` for a function of named parameters only; None: of any other."""
    if not isinstance(call, FunctionType):
        return None
    code = call.__code__
    more = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if more or code.co_kwonlyargcount or code.co_posonlyargcount:
        return None
    names = ", ".join(code.co_varnames[: code.co_argcount])
    made: dict[str, Any] = {"__gate": gate, "__call": call, "__wrapper": wrapper}  # names that no engine's has
    source = f"def poll({names}): return (__wrapper if __gate.open else __call)({names})"
    exec(compile(source, "<gate of hicache-witness>", "exec"), made)  # so named in the engine's tracebacks
    poll: FunctionType = made["poll"]
    poll.__defaults__ = call.__defaults__
    return poll


def _unless(idle: Idle, call: Callable[..., Any], wrapper: Callable[..., Any], seam: Seam) -> Callable[..., Any]:
    """The wrapper of a function that polls: hundreds of calls a request, few of which find anything."""

    @functools.wraps(call)
    def poll(*args: Any, **kwargs: Any) -> Any:
        if not seam.on:
            return call(*args, **kwargs)
        try:
            telling = not idle(args)
            if not seam.fired:
                seam.fire()
        except Exception as error:
            seam.fault(error)
            telling = False
        return wrapper(*args, **kwargs) if telling else call(*args, **kwargs)

    return poll
