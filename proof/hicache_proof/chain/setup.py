"""The first links: how the engine was started, whether its flight recorders record, whether it counts."""

from __future__ import annotations

from collections.abc import Iterator

from hicache_proof.chain.facts import ChainInput, Configuration, Counted, Process, Recorded
from hicache_proof.chain.findings import Finding, found
from hicache_proof.chain.stage import Stage, State, examined


def flags(facts: ChainInput) -> Stage:
    configuration = facts.configuration
    if configuration is None:
        says = facts.configuration_missing or "nobody asked"
        return examined("flags", "unknown", "not known", [found("engine-silent", f"/server_info: {says}")])
    state: State = "unknown" if configuration.hicache is None else "ok"
    return examined("flags", state, _summary(configuration), _of_flags(configuration))


def _summary(configuration: Configuration) -> str:
    on = {True: "HiCache on", False: "HiCache off", None: "HiCache not told"}[configuration.hicache]
    policy = f", {configuration.write_policy}" if configuration.hicache and configuration.write_policy else ""
    ranks = f", TP {configuration.tp_size}, PP {configuration.pp_size}, DP {configuration.dp_size}"
    return f"SGLang {configuration.version or '(version not told)'}: {on}{policy}{ranks}"


def _of_flags(configuration: Configuration) -> Iterator[Finding]:
    if configuration.hicache is False:
        yield found("hicache-off", "the hierarchical cache is switched off: there is no L2")
    elif configuration.host_memory_mode == "buffer_only":
        yield found("buffer-mode", "host memory mode is buffer_only")
    if configuration.dp_size > 1:
        yield found(
            "dp-without-pinning",
            f"{configuration.dp_size} data-parallel replicas keep an L1 and an L2 each: a prefix is found only where "
            "it was stored",
        )
    if configuration.disaggregation not in (None, "null"):
        yield found("both-sides-count", f"prefill and decode are separate servers ({configuration.disaggregation})")


def plugin(facts: ChainInput) -> Stage:
    recorded = facts.recorded
    running = [process for process in recorded.processes if process.running] if recorded is not None else []
    if recorded is None or not running:
        why = facts.recorded_missing or "no process of this engine records"
        return examined("plugin", "unknown", "no flight recorder", [found("recorder-off", why)])
    attached = sum(seam.state == "attached" for process in running for seam in process.seams)
    fired = sum(seam.state == "attached" and seam.fired for process in running for seam in process.seams)
    says = f"{len(running)} process(es) record; {attached} seams attached, {fired} have fired"
    return examined("plugin", "ok" if fired else "idle", says, _of_recorders(facts, recorded, running))


def _of_recorders(facts: ChainInput, recorded: Recorded, running: list[Process]) -> Iterator[Finding]:
    if recorded.no_sidecar is not None:
        yield found("no-sidecar", recorded.no_sidecar)
    if recorded.engine_restarts and facts.watched_seconds is None:
        restarts = f"at least {recorded.engine_restarts:.0f} restart(s) of the engine"
        yield found("sidecar-older-than-engine", f"the sidecar has seen {restarts} and counts all its runs together")
    if recorded.ranks_expected is not None and len(running) < recorded.ranks_expected:
        yield found("rank-without-recorder", f"{len(running)} of {recorded.ranks_expected} ranks record")
    for process in running:
        tripped = [seam.name for seam in process.seams if seam.state == "tripped"]
        if tripped:
            yield found("seam-tripped", f"{process.rank}: {', '.join(tripped)}")
        absent = [function for function in process.not_recorded if not any(t.endswith(function) for t in tripped)]
        if absent:
            yield found("seam-missing", f"{process.rank} does not record {', '.join(absent)}")
    quiet = [process.rank for process in running if not any(seam.fired for seam in process.seams)]
    served = facts.counted.requests if facts.counted is not None else None
    if served and quiet and not (len(quiet) < len(running) and _replicated(facts)):
        yield found("never-fired", f"{served:.0f} requests served, and no seam has fired in {', '.join(quiet)}")
    if recorded.lost_records:
        yield found("records-lost", f"{recorded.lost_records:.0f} records lost since {recorded.since}")


def _replicated(facts: ChainInput) -> bool:
    """Some replicas may simply have had no request yet."""
    return facts.configuration is not None and facts.configuration.dp_size > 1


def metrics(facts: ChainInput) -> Stage:
    counted = facts.counted
    if counted is None:
        switched_off = facts.configuration is not None and facts.configuration.metrics is False
        why = "--enable-metrics is not set" if switched_off else facts.counted_missing or "nobody asked"
        return examined("metrics", "unknown", "no metrics", [found("metrics-off", why)])
    return examined("metrics", "ok", f"read; counted since {counted.since}", _of_metrics(counted))


def _of_metrics(counted: Counted) -> Iterator[Finding]:
    if counted.ranks_added_up > 1:
        yield found(
            "counters-times-ranks",
            f"the engine's cache counters add {counted.ranks_added_up} ranks up: they read {counted.ranks_added_up} "
            "times the logical tokens",
        )
    if counted.missing:
        listed = ", ".join(f"{metric} ({needs})" for metric, needs in counted.missing)
        yield found("families-missing", f"absent: {listed}")
