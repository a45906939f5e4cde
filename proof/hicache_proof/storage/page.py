"""The report for a person."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from hicache_proof.storage.state import Report


def show(report: Report, console: Console) -> None:
    off = report.facts.hicache is False
    style = "bold red" if not report.done else "bold yellow" if off else "bold green"
    console.print(f"[bold]{escape(report.engine)}[/bold]: [{style}]{escape(report.says)}[/]", highlight=False)
    if not off:  # what its parts were told for an L3 means nothing then
        console.print(_who_has_what(report))
    for answer in report.answers:
        console.print(f"the engine: {escape(answer)}", style="dim", highlight=False)
    if report.do is not None:
        console.print(Padding(f"-> {escape(report.do)}", (0, 0, 0, 3), expand=False), highlight=False)


def _who_has_what(report: Report) -> Table:
    facts = report.facts
    table = Table(show_header=False, show_edge=False, pad_edge=False, box=None)
    for number, replica in enumerate(facts.replicas):
        policies = f"prefetch {replica.hicache_storage_prefetch_policy}, write {replica.hicache_write_policy}"
        table.add_row(f"replica {number}", escape(replica.has), escape(policies))
    if facts.frontend is not None:
        noted = facts.frontend.hicache_storage_backend or "none"
        table.add_row("front end", escape(noted), "its own note, not the schedulers'")
    else:
        table.add_row("front end", "?", escape(facts.frontend_missing or ""))
    for rank in facts.ranks:
        table.add_row(rank.rank, _switch(rank.attached, rank.succeeded), "its last switch, by its flight recorder")
    if facts.ranks_missing is not None:
        table.add_row("ranks", "?", escape(facts.ranks_missing))
    elif facts.ranks_silent:
        table.add_row("ranks", "?", f"{facts.ranks_silent} more here without a recorder that watches storage")
    table.add_row("traffic", escape(facts.traffic.says or "none"))
    return table


def _switch(attached: bool | None, succeeded: bool | None) -> str:
    if attached is None:
        return "no switch seen"
    return ("attached" if attached else "detached") if succeeded else ("attach failed" if attached else "detach failed")
