"""Writes a run into a folder: one file for each kind of reader."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from hicache_proof.lab.run import LabRun
from hicache_proof.report import html, markdown, trace


def write(run: LabRun, folder: Path) -> None:
    """Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "report.html": html.render(run),
        "report.md": markdown.render(run),
        "report.json": msgspec.json.format(msgspec.json.encode(run), indent=1).decode() + "\n",
        "trace.json": json.dumps(trace.events(run)) + "\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
