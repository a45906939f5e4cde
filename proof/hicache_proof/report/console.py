"""The run on a terminal: one table, the verdict, its witnesses."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from hicache_proof.lab.plan import Plan
from hicache_proof.lab.run import Check, LabRun
from hicache_proof.report import answering, buses, ladders, view

_STYLES = {"supports": "green", "contradicts": "red", "silent": "yellow", "absent": "dim"}


def print_run(run: LabRun, console: Console) -> None:
    console.print(_series(run))
    console.print()
    console.print(_witnesses(run))
    console.print()
    if found := buses.rows([run.deciding]):
        console.print(_buses(found))
        console.print()
    style = "bold green" if run.outcome.exit_code == 0 else "bold red"
    console.print(Text(run.outcome.sentence, style=style))
    if run.storage is not None:
        console.print(Text(run.storage.sentence, style="bold green" if run.storage.shown else "bold red"))
    console.print(view.effect(run), highlight=False)
    for line in (*ladders.sentences(run), *answering.sentences(run)):
        console.print(line, markup=False, highlight=False)
    for check in run.checks:
        if check.state != "passed":
            console.print(f"[yellow]{check.name}:[/yellow] {escape(check.says)}", highlight=False)


def print_plan(plan: Plan, checks: Sequence[Check], console: Console) -> None:
    console.print("Plan (nothing was asked of the engine):", style="bold")
    for line in plan.arithmetic:
        console.print(f"  {line}", markup=False, highlight=False)
    console.print(
        f"  {plan.repetitions} repetitions of A, B twice, then the eviction load, then C, D and a forced miss: "
        f"prompts of {plan.prompt_tokens:,} tokens, answers of {plan.output_tokens}",
        highlight=False,
    )
    for line in plan.warnings:
        console.print(f"  [yellow]warning:[/yellow] {escape(line)}", highlight=False)
    for check in checks:
        mark = "" if check.state == "passed" else "[yellow]warning:[/yellow] "
        console.print(f"  {mark}{check.name}: {escape(check.says)}", highlight=False)


def _series(run: LabRun) -> Table:
    table = Table(title=None, show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("series")
    for name in ("prompt", "L1", "L2", *(("L3",) if run.storage else ()), "computed", "TTFT"):
        table.add_column(name, justify="right")
    table.add_column("served by")
    table.add_column("verdict on an L2 read")
    for row in view.rows(run):
        name = row.series if row.requests == 1 else f"{row.series} x{row.requests}"
        tiers = (row.device, row.host, *((row.storage,) if run.storage else ()))
        cells = (row.prompt, *tiers, row.computed, row.ttft, row.served_by, row.verdict)
        table.add_row(name, *cells, style="bold" if row.series == "C" else None)
    return table


def _buses(found: Sequence[buses.Bus]) -> Table:
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in buses.HEAD:
        table.add_column(name, justify="right" if name in buses.FIGURES else "left")
    for row in found:
        table.add_row(*map(Text, row))
    return table


def _witnesses(run: LabRun) -> Table:
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("witness (series C)")
    table.add_column("")
    table.add_column("says")
    for witness in run.deciding.judgement.witnesses:
        stance = Text(view.STANCES[witness.stance], style=_STYLES[witness.stance])
        table.add_row(witness.name, stance, Text(witness.says))
    return table
