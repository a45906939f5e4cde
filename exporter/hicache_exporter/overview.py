"""What the live page and /proofs show: plain dictionaries, ready for JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hicache_exporter import __version__, names
from hicache_exporter.collectors.recorded import by_label, histograms, leading_totals, total
from hicache_exporter.core.totals import Totals
from hicache_exporter.judging import Proof

if TYPE_CHECKING:
    from hicache_exporter.app import App

RECENT = 30


def summary(proof: Proof) -> dict[str, Any]:
    """One line of /proofs. None: not known."""
    evidence, judgement = proof.evidence, proof.judgement
    account = evidence.attribution
    return {
        "request_id": evidence.request_id,
        "engine": evidence.engine,
        "rank": evidence.rank,
        "at": moment(proof.at),
        "served_by": judgement.served_by,
        "verdict": judgement.verdict,
        "content": judgement.content,
        "prompt_tokens": evidence.prompt_tokens,
        "device_tokens": account.device_tokens if account is not None else None,
        "host_tokens": account.host_tokens if account is not None else None,
        "storage_tokens": account.storage_tokens if account is not None else None,
        "computed_tokens": evidence.computed_tokens,
        "ttft_seconds": proof.story.ttft_seconds,
        "final": proof.final,
    }


def overview(app: App) -> dict[str, Any]:
    """Tiers now, recorders, and the last verdicts with their witnesses."""
    reports = {report.reading.engine: report for report in (app.engines.reports if app.engines else ())}
    labels = dict.fromkeys([*reports, *app.follower.engines])
    return {
        "version": __version__,
        "at": moment(datetime.now(UTC).timestamp()),
        "since": moment(app.since) if app.since is not None else None,
        "recording": None,
        "spans": {"state": app.spanning.state, **app.spanning.outcomes()},
        "ring_folder": app.settings.ring_folder,
        "refused": [{"file": name, "says": str(why)} for name, why in list(app.follower.folder.refused.items())[:20]],
        "trouble": str(app.follower.folder.trouble) if app.follower.folder.trouble is not None else None,
        "rings": {"waiting": app.follower.waiting, "other_engine": app.follower.other_engine},
        "engines": [_engine(app, label, reports.get(label)) for label in labels],
        "proofs": [_with_witnesses(proof) for proof, _ in zip(app.judging.recent(), range(RECENT), strict=False)],
    }


def moment(seconds: float) -> str:
    """RFC 3339, from seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _with_witnesses(proof: Proof) -> dict[str, Any]:
    witnesses = [
        {"name": state.name, "stance": state.stance, "says": state.says} for state in proof.judgement.witnesses
    ]
    return {**summary(proof), "witnesses": witnesses, "reason": next(iter(proof.judgement.reasons), None)}


def _engine(app: App, label: str, report: Any) -> dict[str, Any]:
    ledger = app.follower.engines.get(label)
    live = app.follower.live_ranks(label)
    identity = ledger.identity if ledger is not None else None
    leading = leading_totals(ledger) if ledger is not None else []
    facts = identity.facts if identity is not None else {}
    capacity = _gauges(report, names.ENGINE_CAPACITY)
    return {
        "engine": label,
        "up": report.reading.up if report is not None else None,
        "why_down": report.reading.reason if report is not None else None,
        "recorded": "now" if any(found.alive for found in live) else "before" if leading else "never",
        "version": facts.get("engine_version"),
        "model": facts.get("served_model_name") or facts.get("model"),
        "write_policy": facts.get("write_policy"),
        "page_size": facts.get("page_size"),
        "content_mode": facts.get("content_mode"),
        "capacity_tokens": {
            "device": facts.get("device_tokens") or capacity.get("device"),
            "host": facts.get("host_tokens") or capacity.get("host"),
        },
        "used_tokens": _gauges(report, names.ENGINE_USED) or None,
        "cached_tokens": {"device": next(iter(_gauges(report, names.ENGINE_EVICTABLE).values()), None)},
        "recorders": [
            {
                "rank": found.ledger.identity.rank,
                "up": found.alive,
                "watching": found.ledger.watching,
                "records": found.engine.totals[found.ledger.identity.rank].records,
                "lost": sum(found.engine.totals[found.ledger.identity.rank].lost.values()),
                "fill": found.fill,
                "tripped": [seam.name for seam in found.seams if seam.state == "tripped"],
            }
            for found in live
        ],
        "counted": _counted(app, label, leading) if leading else None,
    }


def unknown(label: str) -> dict[str, Any]:
    """The card of an engine of which only its metrics are known."""
    facts = dict.fromkeys(("up", "why_down", "version", "model", "write_policy", "page_size", "content_mode"))
    return {"engine": label, **facts, "recorded": "never", "recorders": []}


def _gauges(report: Any, family: names.Family) -> dict[str, float]:
    """A gauge of the engine's own by its first label ("" without one); empty where the engine was not asked for it."""
    if report is None or not report.reading.up:
        return {}
    return {next(iter(value.labels), ""): value.values[0] for value in report.values if value.family is family}


def _counted(app: App, label: str, leading: list[Totals]) -> dict[str, Any]:
    ttft = {tier: observed for tier, observed in histograms(leading, "ttft").items() if observed.count}
    return {
        "hit_tokens": by_label(leading, "hit_tokens"),
        "computed_tokens": total(leading, "computed_tokens"),
        "requests": by_label(leading, "requests"),
        "ttft_mean_seconds": {tier: observed.total / observed.count for tier, observed in ttft.items()},
        "transfer_tokens": by_label(leading, "transfer_tokens"),
        "transfers": by_label(leading, "transfers"),
        "evicted_tokens": by_label(leading, "evicted_tokens"),
        "load_backs": by_label(leading, "load_backs"),
        "verdicts": app.judging.counts_of(label).verdicts,
    }
