"""The run for an issue tracker: what was asked, what answered, why the verdict, how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_proof.lab.run import LabRun
from hicache_proof.report import answering, buses, ladders, view


def render(run: LabRun) -> str:
    deciding = run.deciding
    return "\n".join(
        (
            f"## {run.outcome.sentence}",
            "",
            view.effect(run),
            "",
            *_storage(run),
            "| series | prompt | L1 | L2 | L3 | computed | TTFT | served by | verdict on an L2 read |",
            "|---|--:|--:|--:|--:|--:|--:|---|---|",
            *(_series(row) for row in view.rows(run)),
            "",
            f"### Witnesses of series C (request `{deciding.reply.request_id}`)",
            "",
            f"{deciding.judgement.reasons[0]} (rule `{deciding.judgement.rule}`)",
            "",
            "| witness | | says |",
            "|---|---|---|",
            *(f"| {w.name} | {view.STANCES[w.stance]} | {_cell(w.says)} |" for w in deciding.judgement.witnesses),
            "",
            *_buses(run),
            "### Answers",
            "",
            *_answers(run),
            "",
            *_ladders(run),
            "### Limits of the claim",
            "",
            *(f"- {limit}" for limit in view.limits(run)),
            "",
            *_warnings(run),
            "### Repeat it",
            "",
            *_command(run),
            "",
        )
    )


def _command(run: LabRun) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return ["```", run.command, "```", "", *_engine(run), "", f"{versions}; {run.started_at}"]


def _series(row: view.Row) -> str:
    cells = (row.prompt, row.device, row.host, row.storage, row.computed, row.ttft, row.served_by, row.verdict)
    name = row.series if row.requests == 1 else f"{row.series} x{row.requests}"
    return f"| **{name}** {row.meaning} | " + " | ".join(_cell(cell) for cell in cells) + " |"


def _storage(run: LabRun) -> list[str]:
    return [] if run.storage is None else [f"**{run.storage.sentence}**", ""]


def _buses(run: LabRun) -> list[str]:
    found = buses.rows([run.deciding])
    if not found:
        return []
    head = ["### Bytes over the bus, rank by rank", "", _line(buses.HEAD), "|---|---|--:|--:|--:|---|"]
    return [*head, *(_line(row) for row in found), ""]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _ladders(run: LabRun) -> list[str]:
    lines: list[str] = []
    for found, name in ((run.lengths, "prefix tokens"), (run.concurrency, "at once")):
        if found is None:
            continue
        lines += ["### L2 read against computing", ""]
        lines += [found.break_even.sentence, ""] if found.break_even is not None else []
        lines += [f"| {name} | read from L2 | TTFT read | TTFT computed | ratio | throughput read, computed |"]
        lines += ["|--:|---|--:|--:|---|---|"]
        lines += [
            f"| {r.rung} | {r.from_host} | {r.read} | {r.miss} | {_cell(r.says)} | {r.read_rate}; {r.miss_rate} |"
            for r in ladders.rows(found)
        ]
        lines.append("")
    return lines


def _answers(run: LabRun) -> list[str]:
    """What a model has said stands as code: a tracker would take its @names and its markup for ours."""
    quoted = answering.quoting(run)
    return [f"- {_code(line) if line in quoted else line}" for line in answering.sentences(run)]


def _code(text: str) -> str:
    return "`" + _cell(text).replace("`", "'") + "`"


def _warnings(run: LabRun) -> list[str]:
    found = [f"- {check.name}: {check.says}" for check in run.checks if check.state != "passed"]
    return ["### Warnings", "", *found, ""] if found else []


def _engine(run: LabRun) -> list[str]:
    if run.engine.launch_command is None:
        return []
    return ["The engine was started with", "", "```", run.engine.launch_command, "```"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
