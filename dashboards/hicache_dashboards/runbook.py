"""The runbooks as pages that a sidecar serves: an alert's link leads to the version that goes with its rule."""

from __future__ import annotations

import html
import re
from pathlib import Path

INSTALLED = Path(__file__).with_name("runbooks")
CHECKOUT = Path(__file__).parents[1] / "runbooks"
INDEX = "README"


def page(name: str) -> str | None:
    """HTML of a runbook, its text as it is written and its links to others; None if there is none of that name."""
    folder = INSTALLED if INSTALLED.is_dir() else CHECKOUT
    file = next((file for file in folder.glob("*.md") if file.stem == name), None)
    if file is None:
        return None
    text = re.sub(r"\[(\w+)\]\((\w+)\.md\)", r'<a href="\2">\1</a>', html.escape(file.read_text("utf-8"), quote=False))
    return f'<!doctype html>\n<meta charset="utf-8">\n<title>{name}</title>\n<pre>{text}</pre>\n'
