"""The runbooks as pages that a sidecar serves: an alert's link leads to the version that goes with its rule."""

from __future__ import annotations

import html
import re
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

INSTALLED = Path(__file__).with_name("runbooks")
CHECKOUT = Path(__file__).parents[1] / "runbooks"
INDEX = "README"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../page/live.css">
</head>
<body>
<header class="top">
  <p class="contact">hicache-witness</p>
  <nav aria-label="Pages"><a href="../">live page</a> <a href="./">all runbooks</a></nav>
</header>
<main class="runbook">
{body}</main>
</body>
</html>
"""
"""Addresses are relative: a proxy may serve all of it below a path of its own."""

_markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
_SIBLING = re.compile(r"(\w+)\.md(#[\w-]+)?")


def page(name: str) -> str | None:
    """HTML of a runbook; None if there is none of that name."""
    folder = INSTALLED if INSTALLED.is_dir() else CHECKOUT
    file = next((file for file in folder.glob("*.md") if file.stem == name), None)
    if file is None:
        return None
    title = "Runbooks" if name == INDEX else f"{name}: runbook"
    return PAGE.format(title=html.escape(f"{title} | hicache-witness"), body=body(file.read_text("utf-8")))


def body(text: str) -> str:
    """Markdown as HTML. HTML in it is shown as it is written; links lead to other runbooks or to the web."""
    tokens = _markdown.parse(text)
    for token in tokens:
        if token.children:
            token.children = _followable(token.children)
    rendered: str = _markdown.renderer.render(tokens, _markdown.options, {})
    return rendered


def _followable(tokens: list[Token]) -> list[Token]:
    """Without the links to files that only a checkout has: their text stays."""
    kept, dropped = list[Token](), False
    for token in tokens:
        if token.type == "link_open":
            target = _target(str(token.attrGet("href")))
            dropped = target is None
            token.attrSet("href", target or "")
        if not (dropped and token.type in ("link_open", "link_close")):
            kept.append(token)
    return kept


def _target(href: str) -> str | None:
    if sibling := _SIBLING.fullmatch(href):
        return sibling[1] + (sibling[2] or "")
    return href if href.startswith(("https://", "http://", "#")) else None
