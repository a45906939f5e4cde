"""From requests to the verdict of the run: what is added to the evidence, and which repetition decides."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hicache_proof.lab import series
from hicache_proof.lab.conclude import conclude
from hicache_proof.lab.engine import Window
from hicache_proof.lab.series import Asked
from hicache_proof.lab.sidecar import NoProof, Proof
from hicache_proof.verdict import judge

from ..evidences import COLD, EVERYTHING, L1_HIT, content
from .test_answers import reply
from .test_plan import H200

WINDOW = Window(
    requests=1,
    prompt_tokens=300,
    cached_device=0,
    cached_host=299,
    cached_unattributed=None,
    load_back_tokens=299,
    load_back_bytes=None,
    backup_tokens=0,
    evicted_tokens=0,
)
STILL = replace(WINDOW, cached_host=0, load_back_tokens=0)
BARE = replace(EVERYTHING, reply=None, counters=None, answer=None, control=None, physical=None, ranks=())


def asked(name, repetition, evidence, turn=1, logprob=-1.0, host=0, exclusive=True, window=STILL):
    rid = f"{name}{repetition}{turn}"
    answer = replace(
        reply([5], [logprob]),
        request_id=rid,
        prompt_tokens=300,
        cached_tokens=evidence.prompt_tokens - evidence.computed_tokens,
        split="given",
        device_tokens=evidence.attribution.device_tokens,
        host_tokens=host,
        first_token_ns=1_000_000,
        done_ns=2_000_000,
    )
    proof = Proof(evidence=replace(evidence, request_id=rid), judgement=judge(evidence))
    return Asked(name, repetition, turn, answer, window, exclusive, proof)


def repetition(number, read=BARE, **of_c):
    return [
        asked("A", number, COLD),
        asked("B", number, L1_HIT, turn=1, logprob=-1.5),
        asked("B", number, L1_HIT, turn=2, logprob=-1.0),
        asked("C", number, read, **({"host": 299, "window": WINDOW} | of_c)),
        asked("D", number, L1_HIT),
        asked("miss", number, COLD),
    ]


def concluded(*repetitions, control=(), control_facts=None):
    return conclude([one for each in repetitions for one in each], control, H200, control_facts)


def only(judged, name):
    return next(request for request in judged.requests if request.series == name)


def test_every_repetition_corroborated_is_a_corroborated_run():
    outcome = concluded(repetition(1), repetition(2)).outcome
    assert (outcome.verdict, outcome.content, outcome.exit_code, outcome.deciding) == (
        "corroborated",
        "intact",
        0,
        "C11",
    )


def test_the_run_is_as_good_as_its_weakest_repetition():
    outcome = concluded(repetition(1), repetition(2, L1_HIT, host=0, window=STILL), repetition(3)).outcome
    assert (outcome.verdict, outcome.exit_code, outcome.deciding) == ("no_read", 1, "C21")


def test_content_is_intact_only_if_it_is_in_every_repetition():
    """The bus corroborates as well: a repetition whose rows had no signature may have the same verdict."""
    seen = replace(EVERYTHING, reply=None, counters=None, answer=None, control=None, ranks=())
    unseen = replace(seen, content=content(unseen=50))
    outcome = concluded(repetition(1, seen), repetition(2, unseen), repetition(3, seen)).outcome
    assert (outcome.verdict, outcome.content, outcome.exit_code, outcome.deciding) == (
        "corroborated",
        "not_checked",
        0,
        "C21",
    )
    assert outcome.sentence.endswith("in 3 of 3 repetitions, and its content was checked in only 2 of them.")


def test_one_damaged_repetition_damages_the_run_and_is_the_one_shown():
    damaged = replace(BARE, content=content(mismatched=1))
    outcome = concluded(repetition(1), repetition(2, damaged), repetition(3)).outcome
    assert (outcome.content, outcome.exit_code, outcome.deciding) == ("damaged", 1, "C21")
    assert outcome.sentence.endswith("and what was read is not what was stored.")


def test_damage_that_shows_only_in_what_the_read_left_in_l1_is_damage_too():
    asked_again = [asked("D", 1, L1_HIT, logprob=-9.0) if one.series == "D" else one for one in repetition(1)]
    outcome = concluded(asked_again).outcome
    assert (outcome.verdict, outcome.content, outcome.exit_code) == ("corroborated", "damaged", 1)
    assert "series D or E" in outcome.sentence


def test_c_is_compared_with_the_l1_run_of_the_same_split():
    answer = only(concluded(repetition(1)), "C").evidence.answer
    assert answer.max_logprob_delta == 0  # to the first run of B it would be a half
    assert answer.tolerance == pytest.approx(2.0)  # four times what the two runs of B differ by


def test_an_answer_out_of_tolerance_is_damage():
    outcome = concluded(repetition(1, logprob=-9.0)).outcome
    assert (outcome.content, outcome.exit_code) == ("damaged", 1)


def test_without_a_control_engine_the_forced_miss_is_the_control():
    judged = concluded(repetition(1))
    assert only(judged, "C").evidence.control.kind == judged.control.kind == "forced_miss"
    assert only(judged, "A").evidence.control is None


def test_a_control_engine_that_reads_l2_contradicts():
    control = [replaced._replace(proof=NoProof(why="nobody")) for replaced in repetition(1)]
    judged = concluded(repetition(1), control=control, control_facts=H200)
    assert only(judged, "C").judgement.verdict == "contradicted"
    assert judged.outcome.exit_code == 1


def test_counters_of_a_shared_window_do_not_speak():
    judged = concluded(repetition(1, exclusive=False, window=replace(WINDOW, load_back_tokens=5000)))
    states = {state.name: state.stance for state in only(judged, "C").judgement.witnesses}
    assert states["counters"] == "silent"


def test_without_the_recorder_its_witnesses_are_absent_and_why_is_kept():
    blind = [one._replace(proof=NoProof(why="no sidecar")) for one in repetition(1)]
    request = only(concluded(blind), "C")
    assert (request.judgement.verdict, request.recorder_says) == ("consistent", "no sidecar")
    assert request.evidence.lookup is None
    assert not request.evidence.recorder.watching


@pytest.mark.parametrize(
    ("window", "alone"),
    [
        (WINDOW, True),
        (replace(WINDOW, requests=2), False),
        (replace(WINDOW, prompt_tokens=301), False),
        (replace(WINDOW, requests=None), False),
        (replace(WINDOW, prompt_tokens=None), False),
    ],
)
def test_a_window_is_a_request_s_own_if_nothing_else_was_counted_in_it(window, alone):
    assert series._alone(window, replace(reply([5], [-1.0]), prompt_tokens=300)) is alone
