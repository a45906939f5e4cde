"""The judging core asks nobody: no file, no network, no clock, and nothing of ours beside itself."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hicache_proof

ROOT = Path(hicache_proof.__file__).parent
PURE = [
    *(
        ROOT / f"{name}.py"
        for name in ("evidence", "amounts", "conflicts", "rules", "verdict", "certificate", "verify")
    ),
    *sorted((ROOT / "witnesses").glob("*.py")),
    *sorted((ROOT / "chain").glob("*.py")),
]
ALLOWED = ("__future__", "collections.abc", "typing", "hashlib", "msgspec", "re", "functools")
READS_ITS_TABLE = {"known_issues.py": ("tomllib", "pathlib")}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("path", PURE, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_pure_module_imports_only_pure_ones(path: Path) -> None:
    ours = {f"hicache_proof.{'.'.join(module.relative_to(ROOT).with_suffix('').parts)}" for module in PURE}
    allowed = {*ALLOWED, *READS_ITS_TABLE.get(path.name, ()), *ours, "hicache_proof.witnesses"}
    assert imported(path) <= allowed
