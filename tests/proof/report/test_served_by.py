"""What is said of a request that shares the start of a prompt with another one by chance."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hicache_proof.report import view
from hicache_proof.verdict import judge

from ..evidences import COLD, L1_HIT, L2_READ, scheduler

MIXED = replace(L2_READ, prompt_tokens=301)


def served(run, evidence, device=0, host=0, page=1):
    account = scheduler(device=device, host=host)
    left = evidence.prompt_tokens - device - host
    evidence = replace(evidence, attribution=account, reply=None, computed_tokens=left, page_size=page)
    reply = replace(run.requests[0].reply, prompt_tokens=evidence.prompt_tokens, cached_tokens=device + host)
    return view.served_by(replace(run.requests[0], evidence=evidence, judgement=judge(evidence), reply=reply))


def test_one_token_of_l1_does_not_make_a_cold_prompt_an_l1_hit(proven):
    assert served(proven, COLD, device=1) == "computed (1 token of another prompt's start from L1)"


def test_nor_an_l2_read_one_of_several_tiers(proven):
    assert served(proven, MIXED, device=1, host=299) == "L2 (1 token of another prompt's start from L1)"


@pytest.mark.parametrize(("device", "page", "says"), [(64, 64, "computed (64 tokens"), (65, 64, "L1"), (2, 1, "L1")])
def test_more_than_a_page_is_a_hit(proven, device, page, says):
    assert served(proven, COLD, device=device, page=page).startswith(says)


def test_a_whole_prompt_from_l1_is_one_however_short(proven):
    assert served(proven, L1_HIT, device=299) == "L1"
