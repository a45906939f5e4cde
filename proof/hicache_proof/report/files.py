"""Writes a run into a folder: one file for each kind of reader."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from hicache_proof import certificate
from hicache_proof.certificate import Certificate, Versions
from hicache_proof.files import write_whole
from hicache_proof.lab.run import LabRun
from hicache_proof.report import html, markdown, trace


def folder_for(path: Path) -> None:
    """Make the folder now: a run whose report can't be written is a waste. Raises OSError with a sentence."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OSError(f"can't write into {path} ({error.strerror}): choose another folder with --out") from None


def write(run: LabRun, folder: Path) -> None:
    """Into a folder that exists. Raises OSError."""
    texts = {
        "report.html": html.render(run),
        "report.md": markdown.render(run),
        "report.json": msgspec.json.format(msgspec.json.encode(run), indent=1).decode() + "\n",
        "trace.json": json.dumps(trace.events(run)) + "\n",
        "certificate.json": certificate.encode(certify(run)).decode(),
    }
    for name, text in texts.items():
        write_whole(folder / name, text.encode())


def certify(run: LabRun) -> Certificate:
    """The certificate of the request that decided the run."""
    versions = Versions(
        tool=run.versions["hicache-witness"],
        python=run.versions["Python"],
        platform=run.versions["platform"],
        engine=run.engine.version,
        driver=run.versions.get("GPU driver"),
        model=run.engine.model,
    )
    return certificate.issue(run.deciding.evidence, versions, run.started_at, run.deciding.admitted_at)
