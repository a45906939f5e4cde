"""Call back when a module has been imported by whoever needs it. Nothing is imported earlier than it would be."""

from __future__ import annotations

import importlib.abc
import sys

_waiting: dict[str, list] = {}


def after_import(name, callback):
    """``callback(module)`` right after the module ``name`` has run for the first time; at once if it already has."""
    if name in sys.modules:
        callback(sys.modules[name])
        return
    _waiting.setdefault(name, []).append(callback)
    if _watch not in sys.meta_path:
        sys.meta_path.insert(0, _watch)


class _Watch(importlib.abc.MetaPathFinder):
    """Lets the other finders find, and wraps the loader that they name."""

    def find_spec(self, name, path=None, target=None):
        callbacks = _waiting.pop(name, None)
        if callbacks is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, callbacks)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, real, callbacks):
        self._real = real
        self._callbacks = callbacks

    def __getattr__(self, name):
        return getattr(self._real, name)

    def create_module(self, spec):
        return self._real.create_module(spec)

    def exec_module(self, module):
        self._real.exec_module(module)
        for callback in self._callbacks:
            callback(module)


_watch = _Watch()
