"""Each way in which HiCache fails to help is told from the others, by canned evidence."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hicache_proof.chain.diagnosis import CHAIN, diagnose
from hicache_proof.chain.facts import ChainInput, Mean, Pool, Probe, Seam
from hicache_proof.chain.findings import KINDS, StageName

from .cases import CASES, Case, rank, seams
from .engines import HEALTHY, IDLE, RANK, UNMATCHED, UNREAD, engine


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_is_told_from_the_others(case: Case) -> None:
    diagnosis = diagnose(case.facts)
    found = {finding.id: finding for finding in diagnosis.findings}
    assert case.finding in found
    assert case.says in found[case.finding].says
    assert diagnosis.first_broken == case.broken
    errors = [finding.id for finding in diagnosis.findings if finding.severity == "error"]
    expected = {case.finding} if case.broken else set()
    assert set(errors) - CONSEQUENCES.get(case.name, set()) == expected


CONSEQUENCES = {
    "the engine does not answer": {"recorder-off", "metrics-off"},
    "L2 evicted first, by the counters alone": {"recorder-off"},
}
"""Errors beside the one that the case is about, where one fact brings several."""


def test_every_finding_has_a_case_and_says_what_to_do() -> None:
    assert {case.finding for case in CASES} == set(KINDS)
    assert all(kind.do for kind in KINDS.values())


def test_a_healthy_engine_has_no_finding_and_every_stage_in_order() -> None:
    diagnosis = diagnose(HEALTHY)
    assert diagnosis.findings == ()
    assert [stage.state for stage in diagnosis.stages] == ["ok"] * len(CHAIN)
    assert diagnosis.first_broken is None


def test_an_engine_that_has_served_nothing_is_idle_and_not_broken() -> None:
    untouched = {"requests": 0, "demoted_tokens": 0, "ttft": {}, **UNMATCHED}
    fresh = engine(counted=IDLE, recorded={**untouched, "processes": (rank(seams=seams("attached", False)),)})
    diagnosis = diagnose(fresh)
    assert diagnosis.first_broken is None
    assert {stage.state for stage in diagnosis.stages[3:]} == {"idle", "unknown"}


def test_the_chain_is_the_one_that_is_documented() -> None:
    assert [name for name, _ in CHAIN] == list(get_args(StageName))
    assert [stage.name for stage in diagnose(HEALTHY).stages] == list(get_args(StageName))


def test_nothing_behind_the_flags_is_examined_without_hicache() -> None:
    stages = diagnose(engine({"hicache": False})).stages
    assert {stage.says for stage in stages[1:]} == {"not examined"}


def test_without_a_recorder_the_engine_counters_still_speak() -> None:
    alone = diagnose(ChainInput(configuration=HEALTHY.configuration, counted=HEALTHY.counted))
    states = {stage.name: stage.state for stage in alone.stages}
    assert (states["match"], states["load_back"], states["attribution"]) == ("ok", "ok", "ok")
    assert states["benefit"] == "unknown"


@pytest.mark.parametrize(
    "facts",
    [
        ChainInput(configuration=HEALTHY.configuration, counted=HEALTHY.counted),
        engine(recorded={"no_sidecar": "the sidecar: does not answer", "ttft": {}}),
    ],
    ids=["no recorder", "no sidecar"],
)
def test_who_would_tell_the_benefit_is_named(facts: ChainInput) -> None:
    assert diagnose(facts).stages[-1].says == "only a flight recorder, followed by a sidecar, tells TTFT by tier"


def test_without_numbers_a_stage_is_unknown_and_not_idle() -> None:
    tiers = ("backup_tokens", "evicted_tokens", "load_back_tokens", "host_used", "host_capacity")
    blank = dict.fromkeys((*tiers, "cached_host", "cached_unattributed"))
    for counted in (None, engine(counted=blank).counted):
        stages = diagnose(ChainInput(configuration=HEALTHY.configuration, counted=counted)).stages
        assert {stage.state for stage in stages[3:]} == {"unknown"}
        assert [finding.id for stage in stages[3:] for finding in stage.findings] == []


def test_evictions_are_told_by_the_recorder_where_the_engine_counts_none() -> None:
    stages = diagnose(engine(counted={"evicted_tokens": None})).stages
    assert (stages[4].name, stages[4].state, stages[4].says) == ("eviction", "ok", "120,000 tokens left L1")


def test_tiers_of_equal_size_are_no_finding() -> None:
    assert diagnose(engine(counted={"host_capacity": 65_536, "device_capacity": 65_536, "host_used": 1})).findings == ()


def test_a_state_pool_that_is_in_use_is_no_finding() -> None:
    assert diagnose(engine(counted={"pools": (Pool(name="mamba", capacity=4096, used=900),)})).findings == ()


def test_an_l2_that_was_read_was_not_too_small() -> None:
    turned_over = engine(counted={"backup_tokens": 500_000}).counted
    found = diagnose(ChainInput(configuration=HEALTHY.configuration, counted=turned_over)).findings
    assert [finding.id for finding in found] == ["recorder-off"]


def test_write_back_waits_for_an_eviction() -> None:
    nothing = {"backup_tokens": 0, "host_used": 0, "evicted_tokens": 0, **UNREAD}
    waiting = engine({"write_policy": "write_back"}, nothing, UNMATCHED)
    assert diagnose(waiting).first_broken is None


def test_l3_tokens_need_no_l2_credit() -> None:
    assert diagnose(engine(counted={"cached_host": 0, "cached_storage": 60_000})).findings == ()


def test_a_replica_without_traffic_is_not_accused() -> None:
    quiet = rank("dp1-tp0", seams=seams("attached", False))
    found = diagnose(engine({"dp_size": 2}, recorded={"processes": (RANK, quiet), "ranks_expected": 2})).findings
    assert [finding.id for finding in found] == ["dp-without-pinning"]


def test_replicas_without_traffic_are_accused_if_all_are_quiet_and_ranks_if_one_is() -> None:
    quiet = [rank(name, seams=seams("attached", False)) for name in ("dp0-tp0", "dp1-tp0")]
    replicas = diagnose(engine({"dp_size": 2}, recorded={"processes": tuple(quiet), "ranks_expected": 2})).findings
    ranks = diagnose(engine({"tp_size": 2}, recorded={"processes": (RANK, quiet[0]), "ranks_expected": 2})).findings
    assert [finding.id for finding in replicas] == ["dp-without-pinning", "never-fired"]
    assert [finding.id for finding in ranks] == ["never-fired"]


def test_the_plugin_stage_counts_seams_that_are_attached() -> None:
    pending = Seam(name="HiRadixCache.init_load_back", state="pending", fired=False)
    silent = Seam(name="HiCacheController.write", state="attached", fired=False)
    said = diagnose(engine(recorded={"processes": (rank(seams=(*RANK.seams, pending, silent)),)})).stages[1].says
    assert said == "1 process(es) record; 4 seams attached, 3 have fired"


def test_a_sidecar_that_came_after_the_reads_of_l2_does_not_deny_them() -> None:
    """Right after its restart it has seen no lookup; the engine has counted what it read before."""
    stages = diagnose(engine(recorded=UNMATCHED | {"requests": 0, "host_evicted_tokens": 30_000})).stages
    match = next(stage for stage in stages if stage.name == "match")
    assert (match.state, match.says) == ("ok", "60,000 tokens loaded from L2 or credited to it (engine's counters)")
    assert not [finding for stage in stages for finding in stage.findings]


def test_before_all_of_l1_was_replaced_once_nothing_is_said_of_matches() -> None:
    little = engine(counted={**UNREAD, "evicted_tokens": 65_535, "evicted_ever": 65_535}, recorded=UNMATCHED)
    enough = engine(counted={**UNREAD, "evicted_tokens": 60, "evicted_ever": 65_536}, recorded=UNMATCHED)
    assert diagnose(little).findings == ()
    assert [finding.id for finding in diagnose(enough).findings] == ["stored-never-matched"]


def test_our_own_probe_is_no_load_that_could_be_judged() -> None:
    probe = Probe(prompt_tokens=256, reply_cached_tokens=255, counted_cached_tokens=255)
    counted = {**UNREAD, "prompt_tokens": 512, "cached_device": 255, "evicted_tokens": 23, "backup_tokens": 256}
    recorded = {"promised_tokens": 0, "loaded_tokens": 0, "load_backs": {}, "host_evicted_tokens": 300}
    declined = {"promised_tokens": 64, "loaded_tokens": 0, "load_backs": {"below_threshold": 1}}
    for told in (recorded, declined):
        assert diagnose(engine(counted=counted | {"requests": 2}, recorded=told, probe=probe)).findings == ()
        assert diagnose(engine(counted=counted | {"requests": 3}, recorded=told, probe=probe)).first_broken is not None


@pytest.mark.parametrize(("promised", "found"), [(3, []), (4, ["below-threshold"])])
def test_prompts_that_have_just_begun_alike_are_no_reuse_that_was_declined(promised: int, found: list[str]) -> None:
    told = {"promised_tokens": promised, "loaded_tokens": 0, "load_backs": {"below_threshold": 1}}
    assert [finding.id for finding in diagnose(engine(counted=UNREAD, recorded=told)).findings] == found


def test_many_that_began_alike_hide_no_other_reason() -> None:
    """Promised tokens are counted at admission: retries that never got there promised none."""
    told = {"promised_tokens": 2_000, "loaded_tokens": 0, "load_backs": {"below_threshold": 1_000, "no_room": 10}}
    retried = {"promised_tokens": 0, "loaded_tokens": 0, "load_backs": {"no_room": 10}}
    for recorded, found in ((told, "below-threshold"), (retried, "no-room")):
        assert [finding.id for finding in diagnose(engine(counted=UNREAD, recorded=recorded)).findings] == [found]


def test_a_load_back_that_a_young_sidecar_saw_declined_is_not_all_there_was() -> None:
    told = {"promised_tokens": 80, "loaded_tokens": 0, "load_backs": {"no_room": 1}}
    assert [finding.id for finding in diagnose(engine(recorded=told)).findings] == ["some-declined"]


def test_a_probe_among_requests_that_nobody_counts_hides_nothing() -> None:
    probe = Probe(prompt_tokens=256, reply_cached_tokens=255, counted_cached_tokens=None)
    told = {"promised_tokens": 50_000, "loaded_tokens": 0, "load_backs": {"no_room": 100}}
    facts = engine(counted={**UNREAD, "requests": None}, recorded=told, probe=probe)
    assert diagnose(facts).first_broken == "load_back"


def test_declined_load_backs_weigh_by_their_tokens() -> None:
    few = {"promised_tokens": 60_002, "loaded_tokens": 60_000, "load_backs": {"loaded": 18, "below_threshold": 2}}
    assert diagnose(engine(recorded=few)).findings == ()


def test_few_requests_are_no_mean() -> None:
    few = {"host": Mean(count=4, total=4.0), "none": Mean(count=40, total=2.0)}
    assert diagnose(engine(recorded={"ttft": few})).findings == ()


def test_a_load_without_reuse_does_not_accuse_the_size_of_l2() -> None:
    evicted = {**UNMATCHED, "host_evicted_tokens": 30_000}
    found = diagnose(engine(counted={"cached_device": 0, **UNREAD}, recorded=evicted)).findings
    assert [finding.id for finding in found] == ["no-reuse-seen"]


@pytest.mark.parametrize("load", [None, Mean(count=0, total=0)])
def test_an_engine_that_does_not_time_its_loads_is_not_called_late(load: Mean | None) -> None:
    slow = {"host": Mean(count=20, total=10.0), "none": Mean(count=40, total=20.0)}
    assert [f.id for f in diagnose(engine(recorded={"ttft": slow, "load": load})).findings] == ["hit-no-gain"]


def test_long_prompts_that_were_backed_up_are_no_finding() -> None:
    stored = {"backup_tokens": 250_000, "cached_device": 90_000, "cached_host": 60_000}
    assert diagnose(engine({"chunked_prefill_tokens": 2048}, stored)).findings == ()


def test_a_full_host_pool_that_counts_no_backups_accuses_nobody() -> None:
    full = {"backup_tokens": None, "host_used": 190_000}
    assert diagnose(engine({"chunked_prefill_tokens": 2048}, full)).findings == ()


def test_the_worst_finding_comes_first() -> None:
    severities = [f.severity for f in diagnose(engine({"dp_size": 2}, UNREAD, UNMATCHED)).findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert severities[0] == "error"


maybe = st.none() | st.sampled_from([0.0, 1.0, 5.0, 500.0, 100_000.0])


@given(st.data())
def test_a_diagnosis_can_always_be_made(data: st.DataObject) -> None:
    counted = {name: data.draw(maybe, name) for name in ("requests", "prompt_tokens", "host_capacity", "host_used",
               "device_capacity", "backup_tokens", "evicted_tokens", "load_back_tokens", "cached_device", "cached_host",
               "cached_storage", "cached_unattributed")}  # fmt: skip
    recorded = {name: data.draw(maybe, name) for name in ("requests", "promised_tokens", "loaded_tokens",
                "backups_refused", "demoted_tokens", "dropped_tokens", "host_evicted_tokens")}  # fmt: skip
    policy = data.draw(st.sampled_from([None, "write_back", "write_through", "write_through_selective"]))
    hicache = data.draw(st.sampled_from([None, True, False]))
    chunk = data.draw(st.sampled_from([None, 64, 8192]))
    configured = {"write_policy": policy, "hicache": hicache, "chunked_prefill_tokens": chunk}
    facts = engine(configured, counted, recorded)
    missing = data.draw(st.sets(st.sampled_from(["configuration", "counted", "recorded"])))
    diagnosis = diagnose(
        ChainInput(**{n: getattr(facts, n) for n in ("configuration", "counted", "recorded") if n not in missing})
    )
    broken = [stage for stage in diagnosis.stages if stage.state == "broken"]
    assert diagnosis.first_broken == (broken[0].name if broken else None)
    assert all(any(finding.severity == "error" for finding in stage.findings) for stage in broken)
