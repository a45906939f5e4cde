"""Reading SGLang's answers: what it says, what it leaves out, and what is null."""

from __future__ import annotations

import pytest

from hicache_proof.lab import reply

# the last event of a stream of SGLang 0.5.23, cut down
META = {
    "id": "lab-1",
    "prompt_tokens": 300,
    "output_token_logprobs": [[-1.5, 305, None], [-0.25, 405, None]],
    "cached_tokens": 299,
    "cached_tokens_details": {"device": 0, "host": 299},
}


def parsed(**meta):
    document = {"output_ids": [305, 405], "meta_info": {**META, **meta}}
    return reply.parse("lab-1", document, sent_ns=1_000_000, first_token_ns=3_500_000, done_ns=4_000_000)


def test_a_given_split():
    found = parsed()
    assert (found.split, found.device_tokens, found.host_tokens, found.storage_tokens) == ("given", 0, 299, None)
    assert found.logprobs == (-1.5, -0.25)
    assert found.ttft_seconds == pytest.approx(0.0025)


def test_null_is_not_zero():
    found = parsed(cached_tokens=0, cached_tokens_details=None)
    assert (found.split, found.host_tokens, found.cached_tokens) == ("null", None, 0)


def test_absent_is_not_null():
    document = {"output_ids": [305], "meta_info": {"prompt_tokens": 300}}
    found = reply.parse("lab-1", document, sent_ns=0, first_token_ns=1, done_ns=2)
    assert (found.split, found.host_tokens, found.cached_tokens, found.logprobs) == ("absent", None, None, ())


def test_log_probabilities_that_are_no_numbers_are_none_at_all():
    assert parsed(output_token_logprobs=[[-1.5, 305, None], [None, 405, None]]).logprobs == ()


def test_l3_comes_with_its_own_figure():
    found = parsed(cached_tokens_details={"device": 0, "host": 0, "storage": 299, "storage_backend": "HiCacheFile"})
    assert (found.host_tokens, found.storage_tokens) == (0, 299)


def test_an_answer_without_output_ids_still_has_its_tokens():
    document = {"meta_info": META}
    assert reply.parse("lab-1", document, sent_ns=0, first_token_ns=1, done_ns=2).output_ids == (305, 405)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"meta_info": None},
        {"meta_info": {"prompt_tokens": "many"}},
        {"meta_info": {"cached_tokens_details": [1]}},
        {"meta_info": {"cached_tokens_details": {"host": "7"}}},
        {"meta_info": {"output_token_logprobs": [1]}},
        {"meta_info": {"output_token_logprobs": [["low", 1, None]]}},
        {"meta_info": {"prompt_tokens": float("inf")}},
    ],
)
def test_what_is_no_answer_of_sglangs_is_refused(document):
    with pytest.raises(ValueError):  # noqa: PT011 - in whatever words
        reply.parse("lab-1", document, sent_ns=0, first_token_ns=1, done_ns=2)
