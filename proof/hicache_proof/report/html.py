"""The run as one HTML page that needs nothing else: no script, no outside file, light and dark, printable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jinja2
import msgspec
from markupsafe import Markup

from hicache_proof.evidence import Transfer
from hicache_proof.lab.run import LabRun, Measured, Memory
from hicache_proof.report import answering, buses, curve, ladders, movement, pictures, timeline, times, view, words
from hicache_proof.stats import P95_NEEDS

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("hicache_proof.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
)


class Fact(NamedTuple):
    name: str
    value: str
    note: str


class Line(NamedTuple):
    """One witness: its stance in each repetition of C, and its words in the one that decided."""

    name: str
    meaning: str
    stances: tuple[str, ...]
    says: str


def render(run: LabRun) -> str:
    deciding = run.deciding
    return _TEMPLATES.get_template("report.html").render(
        run=run,
        style=Markup(_source("report.css")),
        tone=_tone(run),
        effect=view.effect(run),
        facts=_facts(run),
        rows=view.rows(run),
        reads=run.of("C"),
        deciding=deciding,
        reasons=deciding.judgement.reasons,
        matrix=_matrix(run),
        stance_words=view.STANCES,
        evidence=msgspec.json.format(msgspec.json.encode(deciding.evidence), indent=2).decode(),
        timeline=_picture("timeline.svg", pictures.draw_timeline(deciding)),
        one_clock=timeline.one_clock(deciding),
        storage_timeline=_storage_timeline(run),
        ttft=_picture("ttft.svg", pictures.draw_ttft(run)),
        times=times.rows(run),
        ladders=_ladders(run),
        answers=_answers(run),
        told=answering.told(run),
        recall=_recall(run),
        acceptance=answering.acceptance(run),
        movement=movement.rows(run),
        energy=movement.energy(run),
        buses=buses.rows(run.of("C")),
        minimum=f"{run.effect.minimum:.0%}",
        repetitions=f"{run.plan.repetitions} repetitions",
        no_p95=all(summary.count < P95_NEEDS for summary in run.ttft.values()),
        memory=[_memory(line) for line in run.memory],
        limits=view.limits(run),
        requests=[_request(request) for request in _all(run)],
        setup=_setup(run),
        terms=words.TERMS,
    )


def _storage_timeline(run: LabRun) -> Markup | None:
    read = next(iter(run.of("E")), None)
    return None if read is None else _picture("timeline.svg", pictures.draw_timeline(read))


def _ladders(run: LabRun) -> list[dict[str, Any]]:
    parts = (
        ("From which length on does a read pay?", "prefix tokens", run.lengths),
        (f"Several requests at once{_length(run)}", "requests", run.concurrency),
    )
    return [
        {
            "title": title,
            "rung": rung,
            "sentence": found.break_even.sentence if found.break_even is not None else "",
            "picture": _picture("curve.svg", curve.draw(found)),
            "rows": ladders.rows(found),
            "rates": found.break_even is None,
        }
        for title, rung, found in parts
        if found is not None
    ]


def _length(run: LabRun) -> str:
    return f", prefixes of {run.concurrency.rungs[0].prefix_tokens:,} tokens" if run.concurrency is not None else ""


def _answers(run: LabRun) -> list[dict[str, str]]:
    return [
        {
            "name": found.name,
            "meaning": answering.MEANINGS[found.name],
            "outcome": answering.outcome(found),
            "state": "failed" if found.failures else "passed" if found.compared else "warning",
        }
        for found in run.answers.comparisons
    ]


def _recall(run: LabRun) -> str:
    markers = run.answers.markers
    return "" if not markers.followed else "passed" if markers.recalled == markers.followed else "failed"


def _source(name: str) -> str:
    loader = _TEMPLATES.loader
    assert loader is not None
    return loader.get_source(_TEMPLATES, name)[0]


def _picture(template: str, picture: Any) -> Markup | None:
    return None if picture is None else Markup(_TEMPLATES.get_template(template).render(picture=picture))


def _tone(run: LabRun) -> str:
    if run.outcome.exit_code == 0:
        return "good"
    bad = run.outcome.content == "damaged" or run.outcome.verdict == "contradicted"
    return "bad" if bad else "warn"


def _facts(run: LabRun) -> list[Fact]:
    deciding = run.deciding
    read, prompt = view.account(deciding).host_tokens, deciding.reply.prompt_tokens
    transfers = deciding.evidence.transfers or ()
    moved = [transfer.bytes for transfer in transfers if transfer.bytes is not None]
    return [
        Fact("read from L2", view.number(read), f"of {view.number(prompt)} prompt tokens of C {deciding.repetition}"),
        Fact(
            "moved to L1",
            view.amount(sum(moved), "bytes") if moved else view.DASH,
            _speed(transfers),
        ),
        Fact("TTFT of the L2 read", _median(run, "C"), f"median of {len(run.of('C'))}"),
        Fact("TTFT of the control", _median(run, "control"), run.effect.baseline),
        Fact("TTFT of an L1 hit", _median(run, "B"), "series B"),
        *([Fact("TTFT of the L3 read", _median(run, "E"), "series E")] if run.storage else []),
    ]


def _speed(transfers: Sequence[Transfer]) -> str:
    if not transfers:
        return "no transfer was seen"
    rate = movement.speed(transfers)
    return "not timed on the device clock" if rate is None else f"at {rate / 1e9:.2f} GB/s on the device clock"


def _median(run: LabRun, series: str) -> str:
    return view.milliseconds(run.ttft[series].median) if series in run.ttft else view.DASH


def _matrix(run: LabRun) -> list[Line]:
    reads = run.of("C")
    said = {witness.name: witness.says for witness in run.deciding.judgement.witnesses}
    stances = [{witness.name: witness.stance for witness in read.judgement.witnesses} for read in reads]
    return [
        Line(name, words.WITNESSES.get(name, ""), tuple(read[name] for read in stances), says)
        for name, says in said.items()
    ]


def _memory(line: Memory) -> dict[str, str]:
    return {
        "name": line.name,
        "before": view.amount(line.before, line.unit),
        "after": view.amount(line.after, line.unit),
        "source": line.source,
    }


def _all(run: LabRun) -> list[Measured]:
    control = run.control.requests if run.control and run.control.kind == "hicache_off" else ()
    return [*run.requests, *control]


def _request(request: Measured) -> dict[str, str]:
    account = view.account(request)
    return {
        "series": f"{request.series} {request.repetition}",
        "id": request.reply.request_id,
        "prompt": view.number(request.reply.prompt_tokens),
        "device": view.number(account.device_tokens),
        "host": view.number(account.host_tokens),
        "computed": view.number(view.computed(request)),
        "ttft": view.milliseconds(request.reply.ttft_seconds),
        "whole": view.milliseconds(request.reply.seconds),
        "load_back": view.number(request.window.load_back_tokens),
        "split": request.reply.split,
        "exclusive": "yes" if request.exclusive else "no",
        "served_by": view.served_by(request),
        "verdict": view.verdict(request),
    }


def _setup(run: LabRun) -> list[tuple[str, str]]:
    engine = run.engine
    pairs: list[tuple[str, object]] = [
        *run.versions.items(),
        ("weight version", engine.weight_version),
        ("write policy", engine.write_policy),
        ("I/O backend, layout", f"{engine.io_backend or view.DASH}, {engine.mem_layout or view.DASH}"),
        ("page size", f"{engine.page_size} tokens"),
        ("chunked prefill", engine.chunked_prefill_tokens),
        ("ranks", f"tensor {engine.tp_size}, pipeline {engine.pp_size}, data {engine.dp_size}"),
        ("data-parallel rank asked", engine.dp_rank),
        ("L3", engine.storage_backend or "none attached"),
        ("prefetch policy", engine.prefetch_policy if engine.storage_backend else None),
        ("control", words.CONTROLS[run.control.kind] if run.control else "none"),
        ("sidecar", run.sidecar_missing or run.sidecar),
        ("salt of the prompts", run.salt),
    ]
    return [(name, view.DASH if value is None else str(value)) for name, value in pairs]
