"""What real engines say of themselves (captures of SGLang, cut down), as the lab reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hicache_proof.lab import engine

CAPTURES = Path(__file__).parent / "captures"


def described(name, **changes):
    document = json.loads((CAPTURES / f"{name}.json").read_text()) | changes
    return engine.describe("http://engine", json.dumps(document).encode())


def read(name, replace=("", "")):
    text = (CAPTURES / f"{name}.txt").read_text().replace(*replace)
    return engine.read(text.encode(), described(name)[1], 1)


def test_the_facts_of_the_newest_engine():
    facts, _ = described("0.5.23-cpu")
    assert (facts.version, facts.hicache, facts.write_policy) == ("0.5.23", True, "write_through")
    assert (facts.page_size, facts.chunked_prefill_tokens, facts.max_prompt_tokens) == (1, 512, 994)


def test_a_chunked_prefill_that_is_off_is_no_limit():
    assert described("0.5.23-cpu", chunked_prefill_size=-1)[0].chunked_prefill_tokens is None


@pytest.mark.parametrize(
    ("at_start", "now", "found"),
    [
        (None, {"hicache_storage_backend": "file", "hicache_storage_prefetch_policy": "timeout"}, ("file", "timeout")),
        ("file", {"hicache_storage_backend": None, "hicache_storage_prefetch_policy": "timeout"}, (None, "timeout")),
        ("file", {}, ("file", "best_effort")),
    ],
    ids=["attached later", "detached since", "not told"],
)
def test_storage_is_what_the_scheduler_has_now_not_what_it_was_started_with(at_start, now, found):
    started = {"hicache_storage_backend": at_start, "hicache_storage_prefetch_policy": "best_effort"}
    facts, _ = described("0.5.23-cpu", **started, internal_states=[now])
    assert (facts.storage_backend, facts.prefetch_policy) == found


def test_secrets_on_the_command_line_are_left_out():
    facts, _ = described("0.5.23-cpu", launch_command="--api-key a --admin-api-key=b --port 1", api_key="a")
    assert facts.launch_command == "--api-key (redacted) --admin-api-key=(redacted) --port 1"
    assert facts.model == "tiny-qwen2"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>", b'{"version": "0.5.23"}'])
def test_another_server_s_answer_is_refused(body):
    with pytest.raises(ValueError, match=r".+"):
        engine.describe("http://engine", body)


def test_the_newest_engine_gives_every_number():
    found = read("0.5.23-cpu")
    assert (found.device_capacity, found.host_capacity, found.host_used) == (1024, 4097, 1572)
    assert (found.cached_device, found.cached_host, found.load_back_tokens) == (299, 299, 299)
    assert (found.backup_tokens, found.evicted_tokens, found.load_back_bytes) == (1572, 958, 153088)
    assert (found.requests, found.prompt_tokens, found.running, found.queued) == (8, 2129, 0, 0)


def test_what_an_old_engine_lacks_is_missing_not_zero():
    found = read("0.5.9-cpu")
    assert (found.host_capacity, found.host_used, found.backup_tokens) == (None, None, None)
    assert found.load_back_tokens == 299


def test_both_spellings_are_the_same_metric():
    assert read("0.5.23-cpu", ("sglang:", "sglang_")) == read("0.5.23-cpu")


def test_a_gpu_engine():
    found = read("0.5.16-h200-unified")
    assert (found.device_capacity, found.host_capacity, found.host_used) == (65536, 196672, 190976)


def test_an_answer_without_any_metric_of_the_engine_is_refused():
    with pytest.raises(ValueError, match="no metric of SGLang"):
        engine.read(b"up 1\n", described("0.5.23-cpu")[1], 1)


def test_a_counter_that_appears_in_the_window_started_at_zero():
    first = read("0.5.23-cpu", ("sglang:load_back_tokens_total{", "sglang:other{"))
    found = engine.window(first, read("0.5.23-cpu"))
    assert found.load_back_tokens == 299
    assert found.prompt_tokens == 0


def test_a_counter_that_never_appears_has_no_delta():
    assert engine.window(read("0.5.9-cpu"), read("0.5.9-cpu")).backup_tokens is None
