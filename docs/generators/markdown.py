"""Markdown by hand would be wrong one day: tables, cells and marked parts of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def cell(text: str) -> str:
    """Text that can stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def codes(texts: Iterable[str]) -> str:
    return ", ".join(map(code, texts))


def page(title: str, *parts: str, source: str) -> str:
    """A generated page; ``source`` names the file to change instead."""
    note = f"<!-- Generated from {source} by docs/build.py: change it there. -->"
    return "\n\n".join([f"# {title}", note, *(part.strip() for part in parts)]) + "\n"


def between(text: str, marker: str, content: str) -> str:
    """``text`` with the part between <!-- marker:begin --> and <!-- marker:end --> replaced. Raises ValueError."""
    begin, end = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    found = re.search(f"{re.escape(begin)}.*?{re.escape(end)}", text, re.DOTALL)
    if found is None:
        raise ValueError(f"no part marked {marker}")
    return text[: found.start()] + f"{begin}\n{content.strip()}\n{end}" + text[found.end() :]
