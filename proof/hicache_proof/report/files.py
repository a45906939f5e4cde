"""Writes a run into a folder: one file for each kind of reader."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hicache_proof.lab.run import LabRun
from hicache_proof.report import html


def write(run: LabRun, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text(html.render(run), encoding="utf-8")
    (folder / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
