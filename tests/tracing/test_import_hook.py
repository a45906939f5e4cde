"""Acting when the engine itself imports a module: importing none ourselves, breaking no import, missing none."""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.util
import sys
from threading import Thread

import pytest

from hicache_tracing import import_hook


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package ``host`` with a module ``host.tree``; gone from sys.modules afterwards, and no hook is left."""
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "__init__.py").write_text("")
    (tmp_path / "host" / "tree.py").write_text("import builtins\nbuiltins.host_runs += 1\nvalue = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(builtins, "host_runs", 0, raising=False)
    meta_path = list(sys.meta_path)
    yield tmp_path / "host"
    import_hook.forget()
    assert [finder for finder in sys.meta_path if type(finder).__module__.startswith("hicache")] == []
    sys.meta_path[:] = meta_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "host"]:
        del sys.modules[name]


class Calls(list):
    """A callback that remembers what it was called with, and whether the module had run by then."""

    def __call__(self, module):
        self.append((module.__name__, getattr(module, "value", None)))


@pytest.fixture
def calls(package) -> Calls:
    calls = Calls()
    import_hook.after_import("host.tree", calls)
    return calls


def test_after_the_engine_has_imported_the_module(calls):
    assert "host.tree" not in sys.modules, "we import nothing ourselves"
    importlib.import_module("host.tree")
    assert calls == [("host.tree", 1)]


def test_at_once_if_it_already_has(package):
    importlib.import_module("host.tree")
    calls = Calls()
    import_hook.after_import("host.tree", calls)
    assert calls == [("host.tree", 1)]


def test_not_for_other_modules(calls, package):
    (package / "other.py").write_text("")
    importlib.import_module("host.other")
    assert calls == []


def test_not_for_other_modules_of_the_same_loader(calls, package):
    """As that of a zip file, which serves all of its modules."""
    (package / "other.py").write_text("value = 2\n")

    class Shared(importlib.abc.Loader):
        def exec_module(self, module):
            module.value = 3

    shared = Shared()

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return importlib.util.spec_from_loader(name, shared) if name.startswith("host.") else None

    sys.meta_path.insert(1, Finder)
    importlib.import_module("host.tree")
    importlib.import_module("host.other")
    assert calls == [("host.tree", 3)]


def test_a_search_is_not_yet_an_import(calls):
    assert importlib.util.find_spec("host.tree") is not None
    assert calls == []
    importlib.import_module("host.tree")
    assert calls == [("host.tree", 1)]


def test_a_module_that_does_not_exist_fails_as_ever(package):
    calls = Calls()
    import_hook.after_import("host.missing", calls)
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'host\.missing'"):
        importlib.import_module("host.missing")
    assert calls == []


def test_an_import_error_of_the_engine_is_its_own_and_the_next_try_counts(calls, package):
    text = (package / "tree.py").read_text()
    (package / "tree.py").write_text("raise ImportError('no CUDA here')\n")
    with pytest.raises(ImportError, match="no CUDA here") as caught:
        importlib.import_module("host.tree")
    assert caught.value.__context__ is None
    assert "host.tree" not in sys.modules
    assert calls == []
    (package / "tree.py").write_text(text + "# another size, so that the cached bytecode is stale\n")
    importlib.invalidate_caches()
    importlib.import_module("host.tree")
    assert calls == [("host.tree", 1)]


def test_a_reload_makes_new_functions_and_counts_again(calls):
    module = importlib.import_module("host.tree")
    importlib.reload(module)
    assert calls == [("host.tree", 1)] * 2
    assert builtins.host_runs == 2


def test_imported_in_a_thread(calls):
    thread = Thread(target=importlib.import_module, args=("host.tree",))
    thread.start()
    thread.join()
    assert calls == [("host.tree", 1)]


def test_imported_in_many_threads_at_once_runs_once(calls):
    threads = [Thread(target=importlib.import_module, args=("host.tree",)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [("host.tree", 1)]
    assert builtins.host_runs == 1


def test_a_fault_of_ours_does_not_break_the_import(package, caplog):
    def broken(_module):
        raise RuntimeError("ours")

    import_hook.after_import("host.tree", broken)
    assert importlib.import_module("host.tree").value == 1
    assert [record.getMessage() for record in caplog.records] == [
        "hicache-witness: not attached to host.tree: RuntimeError('ours')"
    ]
    import_hook.after_import("host.tree", broken)
    assert len(caplog.records) == 2


def test_the_module_looks_as_if_nobody_had_watched(calls, package):
    module = importlib.import_module("host.tree")
    assert module.__spec__.name == "host.tree"
    assert module.__file__ == module.__spec__.origin == str(package / "tree.py")
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert module.__spec__.loader is module.__loader__
    assert importlib.util.find_spec("host.tree") is module.__spec__


class OtherWatch(importlib.abc.MetaPathFinder):
    """Somebody else's import hook for the same module: it asks everybody else and puts its own loader around theirs."""

    def __init__(self, ask, guarded=True):
        self.ask = ask
        self.guarded = guarded
        self.asking = False
        self.ran = 0

    def find_spec(self, fullname, path, target=None):
        if fullname != "host.tree" or (self.asking and self.guarded):
            return None
        self.asking = True
        try:
            spec = self.ask(self, fullname, path)
        finally:
            self.asking = False
        spec.loader = _OtherLoader(spec.loader, self)
        return spec


class _OtherLoader(importlib.abc.Loader):
    def __init__(self, loader, watch):
        self.loader, self.watch = loader, watch

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        self.watch.ran += 1


def _by_import_system(_finder, fullname, _path):
    return importlib.util.find_spec(fullname)


def _by_asking_each(finder, fullname, path):
    found = (other.find_spec(fullname, path) for other in sys.meta_path if other is not finder)
    return next(spec for spec in found if spec is not None)


@pytest.mark.parametrize("ask", [_by_import_system, _by_asking_each])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_beside_another_hook_for_the_same_module(package, ask, first):
    other, calls = OtherWatch(ask), Calls()
    if first == "ours":
        import_hook.after_import("host.tree", calls)
        sys.meta_path.insert(0, other)
    else:
        sys.meta_path.insert(0, other)
        import_hook.after_import("host.tree", calls)
    importlib.import_module("host.tree")
    assert other.ran == 1
    assert builtins.host_runs == 1
    assert ("host.tree", 1) in calls, "called back at least once; a second time must do no harm"


def test_two_hooks_that_ask_each_other_come_to_an_end(package):
    other, calls = OtherWatch(_by_asking_each, guarded=False), Calls()
    sys.meta_path.insert(0, other)
    import_hook.after_import("host.tree", calls)
    importlib.import_module("host.tree")
    assert ("host.tree", 1) in calls
    assert builtins.host_runs == 1


def test_a_finder_in_front_that_had_nothing_is_not_asked_twice(calls):
    asked = []

    class Counting(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname, path, target=None):
            asked.append(fullname)

    sys.meta_path.insert(0, Counting())
    importlib.import_module("host.tree")
    assert asked == ["host", "host.tree"]


@pytest.mark.parametrize("loader", ["slots", "property"])
def test_a_loader_that_cannot_be_watched_loads_as_ever(package, caplog, loader):
    class Slots(importlib.abc.Loader):
        __slots__ = ()

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            module.value = 2

    class Property(importlib.abc.Loader):
        @property
        def exec_module(self):
            return lambda module: setattr(module, "value", 2)

        def create_module(self, spec):
            return None

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname, path, target=None):
            if fullname == "host.tree":
                return importlib.util.spec_from_loader(fullname, {"slots": Slots, "property": Property}[loader]())
            return None

    sys.meta_path.insert(0, Finder())
    calls = Calls()
    import_hook.after_import("host.tree", calls)
    assert importlib.import_module("host.tree").value == 2
    said = [record.getMessage() for record in caplog.records]
    assert calls or said == ["hicache-witness: cannot watch the import of host.tree"]


@pytest.mark.filterwarnings("ignore::ImportWarning")
def test_finders_of_the_old_kind_are_passed_over(calls):
    class Odd:
        def find_module(self, fullname, path=None):
            return None

    sys.meta_path.insert(1, Odd())
    importlib.import_module("host.tree")
    assert calls == [("host.tree", 1)]


def test_forgotten_it_leaves_nothing_in_the_import_system(calls):
    import_hook.forget()
    importlib.import_module("host.tree")
    assert calls == []
    import_hook.forget()
