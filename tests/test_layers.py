"""Who may import whom, and how large a file may be: the arrows of docs/architecture.md, read from the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "hicache_tracing": ROOT / "tracing_patch/hicache_tracing",
    "hicache_exporter": ROOT / "exporter/hicache_exporter",
    "hicache_proof": ROOT / "proof/hicache_proof",
    "hicache_dashboards": ROOT / "dashboards/hicache_dashboards",
}
PURE_PROOF = (
    "amounts", "certificate", "chain", "conflicts", "evidence", "rules", "stats", "verdict", "verify", "witnesses",
)  # fmt: skip
PURE = tuple(f"hicache_proof.{part}" for part in PURE_PROOF)
RECORDS = "hicache_tracing.records"
VERSION = "hicache_exporter.__init__"
STATE = tuple(f"hicache_exporter.{part}" for part in ("follower", "judging", "spanning"))
"""What the sidecar knows: the collectors show it."""
OUTSIDE = {
    "asyncio", "concurrent", "http", "logging", "multiprocessing", "os", "random", "secrets", "signal", "socket",
    "subprocess", "tempfile", "threading", "time", "urllib",
}  # fmt: skip
"""Standard modules with which a pure one would reach the clock, the machine or the network."""

ALLOWED: dict[str, tuple[str, ...]] = {
    "hicache_tracing": ("hicache_tracing",),
    "hicache_tracing.witness": ("hicache_tracing", "torch", "triton"),
    "hicache_exporter.names": (),
    "hicache_exporter.core": ("hicache_exporter.core", "hicache_exporter.names", RECORDS, *PURE, "msgspec"),
    "hicache_exporter.sources": ("hicache_exporter.sources", "hicache_exporter.core", "hicache_tracing", "*"),
    "hicache_exporter.emit": ("hicache_exporter.emit", "hicache_exporter.core", VERSION, "*"),
    "hicache_exporter.collectors": (
        "hicache_exporter.collectors", "hicache_exporter.core", "hicache_exporter.names", "hicache_exporter.sources",
        VERSION, *STATE, *PURE, RECORDS, "*",
    ),
    "hicache_dashboards": ("hicache_dashboards", "hicache_exporter.names", "hicache_exporter.core.span_names", "*"),
    "hicache_dashboards.session.rings": (
        "hicache_dashboards.session", "hicache_exporter", "hicache_proof.verdict", RECORDS, "*",
    ),  # it runs the sidecar's own parts on recorded rings
    "hicache_dashboards.session.tape": ("hicache_dashboards.session", "hicache_exporter", RECORDS, "*"),
    **dict.fromkeys(PURE, (*PURE, RECORDS, "msgspec")),
    "hicache_proof.stats": ("msgspec", "numpy", "scipy"),
}  # fmt: skip
"""What a part may import beside the standard library, with all that lies in it; ``*``: any library that is not ours.
Parts that are not listed may import all."""

LONG = {
    "exporter/hicache_exporter/names.py": "every metric family once: a list, not code",
    "tracing_patch/hicache_tracing/records.py": "the layout that both sides share, in one place",
}
"""Files of more than 300 lines, and why."""


def modules(part: str) -> Iterator[tuple[str, Path]]:
    """(dotted name, file) of every module of a package or of a part of it."""
    package = part.partition(".")[0]
    for path in sorted(PACKAGES[package].rglob("*.py")):
        relative = path.relative_to(PACKAGES[package]).with_suffix("")
        if "shims" in relative.parts:
            continue  # they stand in for the engine's modules and run in its process
        dotted = ".".join((package, *relative.parts)).removesuffix(".__init__")
        if dotted == part or dotted.startswith(part + "."):
            yield dotted, path


def imports(path: Path) -> set[str]:
    """Dotted names that a file imports, wherever it does; of ``from package import name`` the module, if it is one."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it goes"
            found |= {_module(node.module or "", alias.name) for alias in node.names}
    return found


def _module(package: str, name: str) -> str:
    """``package.name`` where that is a module of ours, else the file that defines the name."""
    top, *rest = package.split(".")
    if top not in PACKAGES:
        return package
    folder = PACKAGES[top].joinpath(*rest)
    if not folder.is_dir():
        return package
    return f"{package}.{name if (folder / f'{name}.py').exists() or (folder / name).is_dir() else '__init__'}"


def may(name: str, allowed: tuple[str, ...]) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or ("*" in allowed and top not in PACKAGES):
        return True
    return any(name == entry or name.startswith(entry + ".") for entry in allowed)


def nearest(module: str) -> str | None:
    """The listed part that a module belongs to: the longest one."""
    return max((part for part in ALLOWED if module == part or module.startswith(part + ".")), key=len, default=None)


@pytest.mark.parametrize("part", ALLOWED)
def test_a_part_imports_only_what_its_arrows_point_at(part: str) -> None:
    found = [module for module in modules(part) if nearest(module[0]) == part]
    assert found, f"{part} is gone: take it out of the list"
    wrong = {
        f"{module} imports {name}" for module, path in found for name in imports(path) if not may(name, ALLOWED[part])
    }
    assert wrong == set()


@pytest.mark.parametrize("part", ["hicache_exporter.core", *PURE])
def test_a_pure_part_reaches_neither_the_clock_nor_the_machine(part: str) -> None:
    wrong = {
        f"{module} imports {name}" for module, path in modules(part) for name in imports(path)
        if name.partition(".")[0] in OUTSIDE
    }  # fmt: skip
    assert wrong == set()


def test_torch_and_triton_are_imported_late() -> None:
    """The package is imported with the plugin; what the content witness needs is not, until one is asked for."""
    package = PACKAGES["hicache_tracing"] / "witness/__init__.py"
    eager = {node.module for node in ast.parse(package.read_text("utf-8")).body if isinstance(node, ast.ImportFrom)}
    assert eager == {"__future__", "collections.abc", "typing", RECORDS, "hicache_tracing.witness.pools"}


def test_long_files_have_a_reason() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for package in PACKAGES
        for _, path in modules(package)
    }
    assert {path for path, lines in lengths.items() if lines > 300} <= set(LONG)
    assert set(LONG) <= set(lengths), "a file of the list is gone"
