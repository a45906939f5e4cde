"""The diagnosis for a person: one page, the worst first, each finding with what to do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from hicache_proof.chain.diagnosis import Diagnosis
from hicache_proof.chain.facts import Probe
from hicache_proof.chain.findings import Finding
from hicache_proof.chain.known_issues import KnownIssue
from hicache_proof.chain.reading import probed

_STATES = {"ok": "green", "broken": "bold red", "idle": "cyan", "unknown": "dim"}
_SEVERITIES = {"error": "bold red", "warning": "yellow", "note": "dim"}
_ABOUT = {
    "crash": "crash",
    "wrong_answers": "answers",
    "wrong_numbers": "numbers",
    "not_used": "L2 unused",
    "slow": "speed",
    "start": "start-up",
}

_UNREPORTED = {"source": "(from its source)", "report": "", "observed": "(seen by us, no public report known)"}


def show(diagnosis: Diagnosis, engine: str, probe: Probe | None, console: Console) -> None:
    console.print(_headline(diagnosis, engine), highlight=False)
    console.print(_chain(diagnosis))
    if probe is not None:
        console.print(f"\nprobe: {probed(probe)}", highlight=False)
    for finding in diagnosis.findings:
        _finding(finding, console)
    if diagnosis.known_issues:
        console.print("\nKnown issues of this release (what to do about them: --json)", style="bold")
        console.print(_issues(diagnosis.known_issues))


def _headline(diagnosis: Diagnosis, engine: str) -> str:
    if diagnosis.first_broken is not None:
        return f"[bold]{escape(engine)}[/bold]: the chain is broken at [bold red]{diagnosis.first_broken}[/bold red]"
    unknown = sum(stage.state in ("unknown", "idle") for stage in diagnosis.stages)
    if unknown:
        stages = "one stage has" if unknown == 1 else f"{unknown} stages have"
        return f"[bold]{escape(engine)}[/bold]: nothing is broken; {stages} nothing to show yet"
    return f"[bold]{escape(engine)}[/bold]: [bold green]every stage is in order[/bold green]"


def _chain(diagnosis: Diagnosis) -> Table:
    table = Table(show_header=False, show_edge=False, pad_edge=False, box=None)
    for stage in diagnosis.stages:
        table.add_row(stage.name, f"[{_STATES[stage.state]}]{stage.state}[/]", escape(stage.says))
    return table


def _finding(finding: Finding, console: Console) -> None:
    style = _SEVERITIES[finding.severity]
    console.print(f"\n[{style}]{finding.severity}[/] {finding.stage}: {escape(finding.says)}", highlight=False)
    console.print(Padding(f"-> {escape(finding.do)}", (0, 0, 0, 3), expand=False), highlight=False)


def _issues(issues: Sequence[KnownIssue]) -> Table:
    table = Table(show_header=False, show_edge=False, pad_edge=False, box=None)
    for issue in sorted(issues, key=lambda issue: list(_ABOUT).index(issue.about)):
        references = " ".join(reference.partition("/")[2] for reference in issue.refs) or _UNREPORTED[issue.basis]
        table.add_row(_ABOUT[issue.about], f"{escape(issue.says)} [dim]{escape(references)}[/dim]")
    return table
