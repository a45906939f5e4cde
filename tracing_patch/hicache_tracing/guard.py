"""What stands between our code and the engine's: a shield around every step of ours, and a breaker per seam."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hicache_tracing.records import SeamState

logger = logging.getLogger("hicache_witness")

FAULTS_ALLOWED = 5

Before = Callable[[tuple[Any, ...], dict[str, Any]], Any]
After = Callable[[Any, Any, tuple[Any, ...], dict[str, Any]], None]
Ending = Callable[[Any], None]


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
    call: Callable[..., Any], seam: Seam, before: Before, after: After, ending: Ending | None = None
) -> Callable[..., Any]:
    """The wrapper of an engine function.

    ``before(args, kwargs)`` and ``after(token, result, args, kwargs)`` are shielded; the engine's own call stands
    outside every ``except``: its arguments, result and exception pass through untouched. ``ending(token)`` takes back
    what ``before`` put up for the time of the call, also when the engine's function raises.
    """

    @functools.wraps(call)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not seam.on:
            return call(*args, **kwargs)
        token = ready = None
        try:
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
                _shielded(ending, token, seam)
        try:
            if ready:
                after(token, result, args, kwargs)
            if not seam.fired:
                seam.fire()
        except Exception as error:
            seam.fault(error)
        return result

    return wrapper


def _shielded(ending: Ending, token: Any, seam: Seam) -> None:
    try:
        ending(token)
    except Exception as error:
        seam.fault(error)
