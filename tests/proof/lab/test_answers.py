"""When an answer after an L2 read counts as the L1 run's answer."""

from __future__ import annotations

import pytest

from hicache_proof.lab import answers
from hicache_proof.lab.reply import Reply


def reply(ids, logprobs):
    return Reply(
        request_id="r",
        prompt_tokens=10,
        cached_tokens=0,
        split="null",
        device_tokens=None,
        host_tokens=None,
        storage_tokens=None,
        output_ids=tuple(ids),
        logprobs=tuple(logprobs),
        sent_ns=0,
        first_token_ns=1,
        done_ns=2,
    )


L1 = reply([5, 6, 7], [-1.0, -2.0, -3.0])


def test_the_largest_difference_counts():
    assert answers.difference(L1, reply([5, 6, 7], [-1.0, -2.5, -3.1])) == 0.5


def test_after_the_first_other_token_the_contexts_differ_and_are_not_compared():
    assert answers.difference(L1, reply([5, 9, 9], [-1.0, -2.25, -99.0])) == 0.25


def test_the_tolerance_is_learned_from_two_l1_runs():
    shaky = reply([5, 6, 7], [-1.0, -2.0, -3.1])
    assert answers.tolerance([(L1, shaky)]) == pytest.approx(0.4)


def test_l1_runs_that_agree_to_the_last_bit_leave_a_floor():
    assert answers.tolerance([(L1, L1)]) == answers.FLOOR
    assert answers.tolerance([]) == answers.FLOOR


def test_other_text_within_the_tolerance_is_reported_but_no_difference():
    found = answers.compare(L1, reply([5, 6, 8], [-1.0, -2.0, -3.0]), 0.01)
    assert (found.same_tokens, found.max_logprob_delta) == (False, 0.0)


def test_without_log_probabilities_nothing_is_compared():
    assert answers.compare(L1, reply([5, 6, 7], []), 0.01) is None
