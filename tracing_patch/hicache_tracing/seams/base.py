"""What a seam is: an engine function, how to recognise it, and the two steps of ours around it.

Seams bind the record kinds that they write: in Python 3.11 looking a member up in its enum takes 0.1 us.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hicache_tracing.guard import Steps
    from hicache_tracing.session import Session

Hooks = Callable[["Session"], "Steps"]


@dataclass(frozen=True, slots=True)
class Target:
    """One patched function. ``forms``: the leading parameter names of each form of it that we know."""

    module: str
    owner: str
    """Class name, or "" for a function of the module."""
    name: str
    forms: tuple[tuple[str, ...], ...]
    hooks: Hooks
    unless: str = ""
    """Leave it alone where the owner also defines this one, which tells the same fact better."""

    @property
    def seam(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


def argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str, default: Any = None) -> Any:
    """A parameter of the engine's call, given by position or by name."""
    if len(args) > position:
        return args[position]
    return kwargs.get(name, default)
