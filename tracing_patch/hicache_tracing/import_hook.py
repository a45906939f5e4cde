"""Act when the engine itself has imported a module. We never import a module of the engine's ourselves."""

from __future__ import annotations

import importlib.abc
import logging
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

logger = logging.getLogger("hicache_witness")

Callback = Callable[[ModuleType], None]


class _Watch(importlib.abc.MetaPathFinder):
    """Finds nothing itself: asks the other finders, and has the loader call us after it has run the module."""

    def __init__(self) -> None:
        self.waiting: dict[str, Callback] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        callback = self.waiting.pop(fullname, None)
        if callback is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                _call_after(spec, callback)
                return spec
        self.waiting[fullname] = callback
        return None


_watch = _Watch()


def after_import(name: str, callback: Callback) -> None:
    """Call back once the module has been imported; now, if it already has been. A fault of ours never leaves here."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        _shielded(callback, module)
        return
    _watch.waiting[name] = callback
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)


def forget() -> None:
    """Wait for no module any more."""
    _watch.waiting.clear()
    if _watch in sys.meta_path:
        sys.meta_path.remove(_watch)


def _call_after(spec: ModuleSpec, callback: Callback) -> None:
    loader = spec.loader
    if loader is None or not hasattr(loader, "exec_module"):
        return
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        original(module)
        _shielded(callback, module)

    try:
        loader.exec_module = exec_module  # type: ignore[method-assign]
    except AttributeError:  # a loader with slots: leave the engine's import as it is
        logger.warning("hicache-witness: cannot watch the import of %s", spec.name)


def _shielded(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception:
        logger.warning("hicache-witness: not attached to %s", module.__name__, exc_info=True)
