"""Everything under docs, and in the READMEs, that is generated. Output is committed; a test checks for drift."""

from __future__ import annotations

import json
from pathlib import Path

import click

from . import (
    alerts,
    certificate,
    command_line,
    compatibility,
    demo,
    h200,
    h200_labs,
    manual,
    metrics,
    recorder,
    seams,
    settings,
    spans,
    verdicts,
)
from .markdown import between

ROOT = Path(__file__).resolve().parents[2]
ROWS = Path("docs/compatibility")
REFERENCE = Path("docs/reference")
READMES = (Path("README.md"), Path("README.ru.md"))
H200 = Path("docs/h200.md")


def outputs(root: Path) -> dict[Path, str]:
    """Path under the repository to content."""
    pages = {
        "metrics.md": metrics,
        "cli.md": command_line,
        "environment.md": settings,
        "records.md": recorder,
        "seams.md": seams,
        "verdicts.md": verdicts,
        "alerts.md": alerts,
        "spans.md": spans,
        "certificate.md": certificate,
    }
    releases = compatibility.rendered(compatibility.read(root / ROWS))
    marked = {path: {"compatibility": releases} for path in READMES} | {H200: h200.parts() | h200_labs.parts()}
    return (
        {REFERENCE / name: module.rendered() for name, module in pages.items()}
        | manual.pages()
        | {path: _filled((root / path).read_text("utf-8"), parts) for path, parts in marked.items()}
    )


def _filled(text: str, parts: dict[str, str]) -> str:
    for marker, content in parts.items():
        text = between(text, marker, content)
    return text


def drift(root: Path, expected: dict[Path, str]) -> list[str]:
    """Which files are not as generated, one line each."""
    return [
        f"{path}: {'out of date' if (root / path).exists() else 'missing'}"
        for path, text in expected.items()
        if not (root / path).exists() or (root / path).read_text("utf-8") != text
    ]


def keep(noted: Path, root: Path) -> None:
    """Take over what a run of the matrix noted; releases that it did not run stay as they were."""
    for row in compatibility.read(noted):
        target = root / ROWS / f"{row['release']}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(row) + "\n", "utf-8")


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if something is missing or out of date.")
@click.option("--compatibility", "noted", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--demo", "run", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(check: bool, noted: Path | None, run: Path | None) -> None:
    """Write the generated pages and tables."""
    if run is not None:
        demo.show(run, ROOT)
    if noted is not None:
        keep(noted, ROOT)
    expected = outputs(ROOT)
    if check:
        if found := drift(ROOT, expected):
            raise click.ClickException("\n".join([*found, "Run: python docs/build.py"]))
        return
    for path, text in expected.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, "utf-8")
    click.echo(f"{len(expected)} files written")
