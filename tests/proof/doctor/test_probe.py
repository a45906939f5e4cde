"""The probe asks the same thing twice and sets the reply against the counters."""

from __future__ import annotations

import httpx
import pytest
from tests.proof.lab.fake_engine import FakeEngine, serving

from hicache_proof.doctor.probe import probe
from hicache_proof.lab.errors import CannotRunError


def test_reply_and_counters_of_a_good_engine_agree() -> None:
    with serving(FakeEngine()) as url, httpx.Client() as http:
        seen = probe(url, http)
    assert seen.reply_cached_tokens == seen.counted_cached_tokens
    assert seen.counted_cached_tokens > 0


def test_an_engine_that_is_not_there_can_not_be_probed() -> None:
    with httpx.Client() as http, pytest.raises(CannotRunError):
        probe("http://127.0.0.1:9", http)
