"""How large the experiment is on which engine, and when it is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hicache_proof.lab import plan
from hicache_proof.lab.engine import EngineFacts, Reading
from hicache_proof.lab.errors import CannotRunError

H200 = EngineFacts(
    url="http://h200:30000",
    version="0.5.16",
    model="qwen2-7b-shape",
    weight_version="default",
    launch_command=None,
    device="cuda",
    hicache=True,
    write_policy="write_through",
    io_backend="kernel",
    mem_layout="layer_first",
    storage_backend=None,
    eviction_policy="lru",
    page_size=64,
    chunked_prefill_tokens=8192,
    max_prompt_tokens=39994,
    tp_size=1,
    pp_size=1,
    dp_size=1,
    tokenizer_workers=1,
)
IDLE = Reading(at_ns=0, device_capacity=65536, host_capacity=196672, host_used=0)


def made(facts=H200, reading=IDLE, prefix=None, repetitions=3, evict=True):
    return plan.make(facts, reading, prefix_tokens=prefix, repetitions=repetitions, evict=evict)


def test_the_eviction_load_exceeds_l1_and_everything_fits_into_the_free_room_of_l2():
    found = made()
    assert found.eviction_tokens > IDLE.device_capacity
    assert found.written_tokens <= IDLE.host_capacity
    assert found.filler_tokens <= H200.chunked_prefill_tokens


def test_the_default_prefix_is_whole_pages_within_one_prefill_chunk():
    found = made()
    assert found.prefix_tokens % 64 == 0
    assert 7000 < found.prefix_tokens < 8192 - plan.QUESTION_TOKENS
    assert not found.warnings


def test_without_chunks_the_default_prefix_is_as_long_as_half_of_l1_allows():
    found = made(replace(H200, chunked_prefill_tokens=None), replace(IDLE, host_capacity=2_000_000))
    assert found.prefix_tokens > 30_000


def test_a_fuller_l2_makes_the_default_prefix_shorter():
    fuller = made(reading=replace(IDLE, host_used=120_000))
    assert fuller.prefix_tokens < made().prefix_tokens
    assert fuller.written_tokens <= 76_672


def test_a_full_l2_is_refused_with_the_numbers_and_a_way_out():
    with pytest.raises(CannotRunError, match=r"only 0 of its 196,672 are free.*--flush"):
        made(reading=replace(IDLE, host_used=196_672))


def test_the_repetitions_may_be_too_many_for_a_prefix_asked_for():
    with pytest.raises(CannotRunError, match="fewer --repetitions"):
        made(prefix=16_000, repetitions=8)


@pytest.mark.parametrize("tokens", [1, 64, 127])
def test_a_prefix_under_two_pages_is_refused(tokens):
    with pytest.raises(CannotRunError, match="--prefix-tokens 128 or more"):
        made(prefix=tokens)


def test_a_prefix_longer_than_the_context_is_refused():
    with pytest.raises(CannotRunError, match="too long"):
        made(prefix=39_000)


def test_a_prefix_asked_for_is_cut_to_whole_pages():
    assert made(prefix=1000).prefix_tokens == 960


def test_a_prefix_over_the_chunk_is_allowed_with_a_warning():
    found = made(prefix=16_000, repetitions=2)
    assert found.prefix_tokens == 16_000
    assert "longer than the chunked prefill size" in found.warnings[0]


@pytest.mark.parametrize(
    ("facts", "reading", "warning"),
    [
        (H200, replace(IDLE, device_capacity=220_000, host_capacity=219_000), "smaller than L1"),
        (replace(H200, eviction_policy="lfu"), IDLE, "evicts by lfu"),
        (replace(H200, tokenizer_workers=4), IDLE, "4 tokenizer workers"),
    ],
)
def test_what_may_spoil_the_run_is_a_warning(facts, reading, warning):
    assert any(warning in line for line in made(facts, reading, evict=False).warnings)


@pytest.mark.parametrize(
    ("facts", "reading", "says"),
    [
        (H200, replace(IDLE, device_capacity=None), "--enable-metrics"),
        (H200, replace(IDLE, host_capacity=None), "does not report the size and use of its host pool"),
        (H200, replace(IDLE, device_capacity=128, host_capacity=4096), "too small"),
    ],
)
def test_an_engine_that_cannot_hold_it_is_refused_with_what_to_do(facts, reading, says):
    with pytest.raises(CannotRunError, match=says):
        made(facts, reading)


def test_left_in_l1_on_purpose_everything_fits_there():
    found = made(evict=False)
    assert found.fillers == 0
    assert found.written_tokens <= IDLE.device_capacity


def test_left_in_l1_on_purpose_a_filled_l2_does_not_matter_but_l1_does():
    found = made(reading=replace(IDLE, host_used=196_000), evict=False)
    assert found.written_tokens <= IDLE.device_capacity
    assert "no more than the 65,536 that both L1 and L2 hold" in found.arithmetic[-1]
    with pytest.raises(CannotRunError, match="without the eviction load all of them must stay in L1"):
        made(prefix=8128, repetitions=4, evict=False)


def test_the_arithmetic_names_its_terms():
    found = made(prefix=1024)
    assert "8 prefixes (two for the warm-up, two a repetition) of" in found.arithmetic[-1]
    assert "+ 256 for the markers' questions +" in found.arithmetic[-1]


def test_the_control_engine_gets_as_many_fillers_as_its_own_l1_needs():
    ours = made()
    larger = plan.for_control(ours, H200, replace(IDLE, device_capacity=131_072))
    smaller = plan.for_control(ours, H200, replace(IDLE, device_capacity=1024))
    assert larger.eviction_tokens > 131_072
    assert smaller.fillers == ours.fillers
