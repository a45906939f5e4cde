"""The page of verdict rules, from the rules' own sentences and the table of the judge's docstring."""

from __future__ import annotations

import inspect

from hicache_proof import verdict
from hicache_proof.rules import RULES

from .markdown import code, page, table

INTRODUCTION = """
Each verdict is decided by one rule, and its id is in the certificate. The rules look at the evidence in this order:
is the window void, do two witnesses disagree, did a read take place, did none, does nobody know. What a verdict
means, and what it does not mean, is in [concepts](../concepts.md).
"""
MISSING = """
## The best verdict when a witness is missing
"""


def rendered() -> str:
    rules = table(("rule", "says"), [(code(rule), sentence) for rule, sentence in RULES.items()])
    head, *rows = _best_verdicts()
    parts = (INTRODUCTION, rules, MISSING, table(head, rows))
    return page("Verdict rules", *parts, source="proof/hicache_proof/rules.py and verdict.py")


def _best_verdicts() -> list[list[str]]:
    """The two columns of the table in the judge's docstring."""
    lines = inspect.cleandoc(verdict.__doc__ or "").splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("===")]
    width = len(lines[rules[0]].split()[0])
    inside = [line for line in lines[rules[0] : rules[-1]] if not line.startswith("===")]
    return [[line[:width].strip(), line[width:].strip()] for line in inside]
