"""Prompts of one run and of many."""

from __future__ import annotations

import random

import pytest

from hicache_proof.lab.errors import CannotRunError
from hicache_proof.lab.prompts import Prompts, sample_text, vocabulary

BYTES = vocabulary(range(3, 259))


def test_tokens_come_from_the_vocabulary_only():
    assert set(Prompts(BYTES, "salt").fresh(500)) <= set(BYTES)


def test_no_two_prompts_of_a_run_start_alike():
    prompts = Prompts(BYTES, "salt")
    heads = [prompts.fresh(10)[0] for _ in range(len(BYTES))]
    assert len(set(heads)) == len(heads)


def test_another_salt_gives_other_prompts():
    one, other = Prompts(BYTES, "one"), Prompts(BYTES, "other")
    assert one.fresh(10) != other.fresh(10)


def test_two_questions_part_at_their_first_token():
    prompts = Prompts(BYTES, "salt")
    for _ in range(300):
        first = prompts.question(4)
        assert prompts.question(4, unlike=first)[0] != first[0]


def test_the_sample_text_touches_many_tokens_even_of_a_byte_tokenizer():
    assert len(set(sample_text(random.Random("salt")).encode())) > 100


def test_a_tokenizer_that_knows_nothing_is_refused():
    with pytest.raises(CannotRunError, match="--token-ids"):
        vocabulary([1, 1, 2])
