"""Act when the engine itself has imported a module. We never import a module of the engine's ourselves."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType

from hicache_tracing.guard import say

Callback = Callable[[ModuleType], None]


class _Watch(importlib.abc.MetaPathFinder):
    """Finds nothing itself: asks the finders behind it, and has the loader call us after it has run the module.

    A module stays watched: a search is not yet an import, an import may fail and be tried again, and a reload makes
    new functions. Calling back twice must do no harm.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, Callback] = {}
        self._asking: set[tuple[int, str]] = set()  # (thread, module): a finder that asks all the others asks us too

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        question = get_ident(), fullname
        if fullname not in self.waiting or question in self._asking:
            return None
        self._asking.add(question)
        try:
            spec = self._ask_the_others(fullname, path, target)
        finally:
            self._asking.discard(question)
        if spec is not None:
            self._call_after(spec)
        return spec

    def _ask_the_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        finders = list(sys.meta_path)
        behind = finders[finders.index(self) + 1 :] if self in finders else []
        for finder in behind:
            spec = finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                return spec
        return None

    def _call_after(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        if loader is None or not hasattr(loader, "exec_module"):
            return
        original = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            original(module)
            callback = self.waiting.get(spec.name)
            if callback is not None and module.__name__ == spec.name:  # a loader may serve several modules
                _shielded(callback, module)

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except Exception:  # a loader with slots: leave the engine's import as it is
            say("cannot watch the import of %s", spec.name)


_watch = _Watch()


def after_import(name: str, callback: Callback) -> None:
    """Call back each time the module has been imported, now if it already has been. No fault of ours leaves here."""
    _watch.waiting[name] = callback
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        _shielded(callback, module)


def forget() -> None:
    """Watch no module any more."""
    _watch.waiting.clear()
    if _watch in sys.meta_path:
        sys.meta_path.remove(_watch)


def _shielded(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception as error:
        say("not attached to %s: %r", getattr(module, "__name__", module), error)
