"""Copies of a real release with a few of its functions renamed, re-signed, deleted or moved: an SGLang of tomorrow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hicache_proof.demo.environment import ensure

ENGINE = Path("sglang", "srt")


class Edit(NamedTuple):
    """One change of the engine's source: a regular expression and what comes in its place."""

    files: str
    """Glob below ``sglang/srt``; those in which nothing matches stay as they are."""
    old: str
    new: str


def renamed(files: str, old: str, new: str) -> Edit:
    """A name and all its uses in these files."""
    return Edit(files, rf"(?<![\w\"]){old}\b", new)


def deleted(file: str, method: str) -> Edit:
    """A method of a class, up to the next one."""
    return Edit(file, rf"\n    def {method}\(.*?(?=\n    (?:def |@))", "")


def changed_copy(version: str, folder: Path, edits: Iterable[Edit], moved: tuple[str, str] | None = None) -> Path:
    """A folder for the engine's path, in front of the release: links to its files, and the changed ones in their place.

    ``moved``: (module file below ``sglang/srt``, its new place). Fails if an edit changes nothing.
    """
    (source,) = [path for path in ensure(version).paths if (path / ENGINE).is_dir()]
    texts: dict[Path, str] = {}
    for edit in edits:
        before = dict(texts)
        for path in sorted((source / ENGINE).glob(edit.files)):
            text = texts.get(path) or path.read_text()
            new = re.sub(edit.old, edit.new, text, flags=re.DOTALL)
            if new != text:
                texts[path] = new
        assert texts != before, f"{edit} finds nothing in {version}"
    _link(source / "sglang", folder / "sglang", [path.relative_to(source / "sglang") for path in texts])
    for path, text in texts.items():
        (folder / path.relative_to(source)).write_text(text)
    if moved is not None:
        old, new = (folder / ENGINE / name for name in moved)
        old.rename(new)
    return folder


def _link(source: Path, target: Path, files: list[Path]) -> None:
    """Links to everything in ``source``; what leads to ``files`` is real, and the files themselves are left out."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        below = [file for file in files if file.parts[0] == entry.name]
        if entry.name == "__pycache__" or (below and not entry.is_dir()):
            continue
        if below:
            _link(entry, target / entry.name, [file.relative_to(entry.name) for file in below])
        else:
            (target / entry.name).symlink_to(entry)
