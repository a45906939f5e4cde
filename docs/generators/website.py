"""A hook of mkdocs: pages that lie beside docs (README, runbooks) become pages of the site, and links follow them.

In the repository a page links another as GitHub shows it. On the site docs is the root, so ``docs/`` falls away.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("*.md", "dashboards/runbooks/*.md")
FRONT = {"README.md": "overview.md"}
"""A README is the first page of its folder, and here that is index.md already."""
TARGET = r"\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)"
LINK = re.compile(TARGET)
WHOLE = re.compile(r"\[(?P<text>[^\[\]]*)" + TARGET)


def beside() -> dict[str, Path]:
    """Address on the site to file."""
    paths = {str(path.relative_to(ROOT)): path for pattern in BESIDE for path in sorted(ROOT.glob(pattern))}
    return {FRONT.get(name, name): path for name, path in paths.items()}


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for address, path in beside().items():
        files.append(File.generated(config, address, content=path.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return moved(markdown, page.file.src_uri)


def moved(markdown: str, address: str) -> str:
    """``markdown`` with its links as they must be at ``address``; a link to what is not on the site is plain text."""
    lies_at = address if address in beside() else f"docs/{address}"

    def target(path: str) -> str | None:
        """Where it is on the site."""
        found = posixpath.normpath(posixpath.join(posixpath.dirname(lies_at), path))
        found = FRONT.get(found, found)
        if (ROOT / found / "README.md").exists():
            found = posixpath.join(found, "README.md")
        return found.removeprefix("docs/") if found.startswith("docs/") or found in beside() else None

    def plain(found: re.Match[str]) -> str:
        return found["text"] if target(found["path"]) is None else found[0]

    def link(found: re.Match[str]) -> str:
        there = target(found["path"])
        if there is None:
            return found[0]
        return f"]({posixpath.relpath(there, posixpath.dirname(address) or '.')}{found['anchor'] or ''})"

    return LINK.sub(link, WHOLE.sub(plain, markdown))
