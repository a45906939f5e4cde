"""From an engine's names to ours: every version, every tier, and three kinds of nothing."""

from __future__ import annotations

import re

import pytest

from hicache_exporter import names
from hicache_exporter.core.engine_families import ROWS, WANTED

from .samples import LATEST, RECORDED, Numbers, info_of, metrics_of, report

HIT = "hicache_engine_cached_tokens"
OLD = "0.5.9-cpu"


def without(text: str, metric: str) -> str:
    return re.sub(rf"^sglang:{metric}(_bucket|_sum|_count)?[ {{].*\n", "", text, flags=re.M)


def numbers(name: str, text: str | None = None, **changes: object) -> Numbers:
    return Numbers(metrics_of(name) if text is None else text, info_of(name, **changes))


# -- what the recordings must say (checked by hand against the engine's own texts) ----------------------------------
@pytest.mark.parametrize(
    ("name", "device", "host", "loaded", "backed_up", "evicted"),
    [
        ("0.5.9-cpu", 299, 299, 299, None, 960),
        ("0.5.10-cpu", 299, 299, 299, None, 963),
        ("0.5.12-cpu", 299, 299, 299, None, 963),
        ("0.5.14-cpu", 299, 299, 299, None, 963),
        ("0.5.18-cpu", 299, 299, 299, 1579, 963),
        ("0.5.20-cpu", 299, 299, 299, 1579, 963),
        ("0.5.22-cpu", 299, 299, 299, 1572, 958),
        ("0.5.23-cpu-l3", 299, 598, 1196, 1581, 1265),
    ],
)
def test_tokens_of_the_tiers_in_every_version(name, device, host, loaded, backed_up, evicted):
    found = numbers(name)
    assert found(HIT, tier="device") == device
    assert found(HIT, tier="host") == host
    assert found("hicache_engine_load_back_tokens") == loaded
    assert found("hicache_engine_backup_tokens") == backed_up
    assert found("hicache_engine_evicted_tokens") == evicted


def test_storage_tier_and_its_traffic():
    found = numbers(LATEST)
    assert found(HIT, tier="storage") == 598
    assert found("hicache_engine_storage_prefetched_tokens") == 598
    assert found("hicache_engine_storage_backup_tokens") == 1581
    assert found("hicache_engine_storage_hit_tokens") == 598
    assert found("hicache_engine_storage_unfulfilled_tokens", reason="deadline") == 0


def test_sizes_and_fill_of_the_tiers():
    found = numbers(LATEST)
    assert found("hicache_engine_capacity_tokens", tier="device") == 1024
    assert found("hicache_engine_capacity_tokens", tier="host") == 4097
    assert found("hicache_engine_used_tokens", tier="device") == 300
    assert found("hicache_engine_used_tokens", tier="host") == 607
    assert found("hicache_engine_evictable_tokens") == 307
    assert numbers(OLD)("hicache_engine_used_tokens", tier="device") == 301  # num_used_tokens, before 0.5.11


def test_histograms_keep_the_engines_buckets_and_add_up_streaming_and_not():
    (ttft,) = numbers(LATEST).of("hicache_engine_ttft_seconds")
    count, total, *buckets = ttft.values
    assert (count, round(total, 6)) == (11, round(11.248657945889136 + 0.03926103800040437, 6))
    assert ttft.bounds[0] == "0.1"
    assert ttft.bounds[-1] == "+Inf"
    assert buckets == sorted(buckets)
    assert buckets[-1] == count


@pytest.mark.parametrize(("name", "clock"), [("0.5.14-cpu", "host"), ("0.5.16-h200-hiradix", "device")])
def test_the_load_back_duration_says_which_clock_it_is_from(name, clock):
    (duration,) = numbers(name).of("hicache_engine_load_back_seconds")
    assert duration.labels == (clock,)


def test_without_the_version_the_clock_is_unknown():
    (duration,) = Numbers(metrics_of(LATEST), None).of("hicache_engine_load_back_seconds")
    assert duration.labels == ("unknown",)


# -- tiers ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("source", ["storage_HiCacheFile", "storage_MooncakeStore", "storage"])
def test_every_storage_class_is_storage(source):
    text = metrics_of(LATEST).replace('cache_source="storage"', f'cache_source="{source}"')
    assert numbers(LATEST, text)(HIT, tier="storage") == 598


@pytest.mark.parametrize("source", ["total", "gpu_direct", "storageX", "", "Device"])
def test_total_and_unknown_sources_stay_unattributed(source):
    text = metrics_of(LATEST).replace('cache_source="device"', f'cache_source="{source}"')
    found = numbers(LATEST, text)
    assert found(HIT, tier="unattributed") == 299
    assert found(HIT, tier="device") is None


def test_with_nothing_but_total_no_tier_claims_a_number():
    text = without(metrics_of(OLD), "cached_tokens_total") + 'sglang:cached_tokens_total{cache_source="total"} 598.0\n'
    found = numbers(OLD, text)
    assert [(v.labels, v.values) for v in found.of(HIT)] == [(("unattributed",), (598.0,))]
    assert found.view.tiers_seen == {"device": False, "host": False}


def test_a_known_tier_starts_at_zero_and_is_marked_as_not_seen():
    text = re.sub(r'^.*cache_source="host".*\n', "", metrics_of(OLD), flags=re.M)
    found = numbers(OLD, text)
    assert found(HIT, tier="host") == 0
    assert found(HIT, tier="storage") is None  # not configured
    assert found.view.tiers_seen == {"device": True, "host": False}


def test_a_configured_storage_tier_starts_at_zero_too():
    found = numbers(OLD, hicache_storage_backend="file")
    assert found(HIT, tier="storage") == 0


def test_prefilled_tokens_by_tier_where_the_engine_tells_and_unattributed_where_not():
    new, old = numbers(LATEST), numbers(OLD)
    served = "hicache_engine_prefill_tokens"
    assert [new(served, served_by=tier) for tier in ("device", "host", "storage", "computed")] == [299, 598, 598, 1535]
    assert old(served, served_by="unattributed") == 598
    assert old(served, served_by="computed") == 1532
    assert old(served, served_by="host") is None


def test_ten_thousand_sources_reasons_pools_and_models_leave_as_many_series_as_one():
    text = metrics_of(LATEST)
    more = "".join(
        f'sglang:cached_tokens_total{{cache_source="s{i}",model_name="m{i}"}} 1.0\n'
        f'sglang:prompt_tokens_total{{model_name="m{i}"}} 1.0\n'
        f'sglang:hicache_dropped_tokens_total{{cache_type="T{i}",pool="kv",reason="r{i}",tp_rank="0"}} 1.0\n'
        f'sglang:load_back_tokens_total{{cache_type="T",pool="p{i}",tp_rank="0"}} 1.0\n'
        f'sglang:storage_prefetch_deferred_tokens_total{{reason="r{i}",storage_backend="b{i}",tp_rank="0"}} 1.0\n'
        for i in range(10_000)
    )
    few = "".join(line + "\n" for line in more.split("\n")[:5])
    one, many = (report(text + extra, info_of(LATEST)) for extra in (few, more))
    assert {(v.family.name, v.labels) for v in many.values} == {(v.family.name, v.labels) for v in one.values}
    found = numbers(LATEST, text + more)
    assert found(HIT, tier="unattributed") == 10_000
    assert found("hicache_engine_dropped_tokens", reason="other") == 10_000
    assert found("hicache_engine_pool_load_back_slots", pool="other") == 10_000
    assert found("hicache_engine_load_back_tokens") == 1196
    assert many.description["model"] == "tiny-qwen2"
    assert report(text + more, None).description["model"] == "other"


# -- pools ----------------------------------------------------------------------------------------------------------
def test_token_totals_are_the_kv_pool_alone():
    line = (
        'sglang:load_back_tokens_total{cache_type="UnifiedRadixCache",dp_rank="0",pool="mamba",pp_rank="0",tp_rank="0"}'
    )
    found = numbers(LATEST, metrics_of(LATEST) + line + " 7.0\n")
    assert found("hicache_engine_load_back_tokens") == 1196
    assert found("hicache_engine_pool_load_back_slots", pool="kv") == 1196
    assert found("hicache_engine_pool_load_back_slots", pool="mamba") == 7


def test_the_pools_of_a_hybrid_model_by_tier():
    side = "".join(
        f'sglang:{metric}{{model_name="m",moe_ep_rank="0",pp_rank="0",tp_rank="{rank}"}} {value}\n'
        for rank in "01"
        for metric, value in (
            ("max_total_num_tokens_swa", 512.0),
            ("swa_used_tokens", 128.0),
            ("swa_evictable_tokens", 64.0),
            ("mamba_used_tokens", 3.0),
            ("mamba_evictable_tokens", 2.0),
            ("hicache_host_mamba_total_states", 40.0),
            ("hicache_host_mamba_used_states", 9.0),
        )
    )
    text = without(without(metrics_of(LATEST), "swa_\\w+"), "mamba_\\w+") + side
    found = numbers(LATEST, text, tp_size=2)
    pool = "hicache_engine_pool_{}_slots"
    assert found(pool.format("capacity"), tier="device", pool="swa") == 512
    assert found(pool.format("used"), tier="device", pool="swa") == 128
    assert found(pool.format("evictable"), pool="swa") == 64
    assert found(pool.format("used"), tier="device", pool="mamba") == 3
    assert found(pool.format("evictable"), pool="mamba") == 2
    assert found(pool.format("capacity"), tier="host", pool="mamba") == 40
    assert found(pool.format("used"), tier="host", pool="mamba") == 9
    assert not [metric for metric in found.missing if "swa" in metric or "mamba" in metric]


def test_the_pools_of_a_hybrid_model_are_not_missed_elsewhere():
    found = numbers(LATEST, without(without(metrics_of(LATEST), "swa_\\w+"), "mamba_\\w+"))
    assert found.of("hicache_engine_pool_used_slots") == []
    assert not [metric for metric in found.missing if "swa" in metric or "mamba" in metric]


# -- three kinds of nothing -----------------------------------------------------------------------------------------
def test_a_counter_that_the_engine_has_but_has_not_used_is_zero():
    found = numbers(LATEST, without(metrics_of(LATEST), "load_back_tokens_total"))
    assert found("hicache_engine_load_back_tokens") == 0
    assert "load_back_tokens_total" not in found.missing


def test_a_counter_that_this_version_lacks_is_missing_and_says_from_which_version_on_it_exists():
    found = numbers(OLD)
    assert found("hicache_engine_backup_tokens") is None
    assert found.missing["hicache_backup_tokens_total"] == "sglang>=0.5.18"
    assert found.missing["hicache_host_total_tokens"] == "sglang>=0.5.10"


def test_a_tree_that_counts_no_load_back_has_none_and_not_zero():
    """The opt-in tree of 0.5.12 after a real read of L2: 399 tokens."""
    found = numbers("0.5.12-cpu-unified")
    assert found(HIT, tier="host") == 399
    for family in ("load_back_tokens", "pool_load_back_slots", "load_back_seconds"):
        assert found.of(f"hicache_engine_{family}") == []
    assert found.missing["load_back_tokens_total"] == "sglang>=0.5.13 or HiRadixCache"
    assert found.missing["load_back_duration_seconds"] == "sglang>=0.5.13 or HiRadixCache"


@pytest.mark.parametrize(("name", "tree"), [("0.5.12-cpu", "HiRadixCache"), ("0.5.14-cpu", "UnifiedRadixCache")])
def test_a_tree_that_counts_load_backs_has_zero_before_the_first(name, tree):
    text = without(metrics_of(name), "load_back_tokens_total").replace("HiRadixCache", tree)
    found = numbers(name, text)
    assert found("hicache_engine_load_back_tokens") == 0
    assert "load_back_tokens_total" not in found.missing


def test_without_hicache_its_metrics_are_missing_and_the_flag_is_named():
    text = metrics_of(LATEST)
    for row in ROWS:
        if row.needs.name in ("HICACHE", "STORAGE"):
            text = without(text, row.engine)
    found = numbers(LATEST, text, enable_hierarchical_cache=False, hicache_storage_backend=None)
    assert found("hicache_engine_load_back_tokens") is None
    assert found.missing["load_back_tokens_total"] == "--enable-hierarchical-cache"
    assert found.missing["hicache_host_used_tokens"] == "--enable-hierarchical-cache"
    assert not any("storage" in metric or "prefetch" in metric for metric in found.missing)  # L3 is a choice


def test_a_gauge_before_its_first_use_is_missing_and_never_zero():
    found = numbers(LATEST, without(metrics_of(LATEST), "hicache_host_used_tokens"))
    assert found("hicache_engine_used_tokens", tier="host") is None
    assert found.missing["hicache_host_used_tokens"] == "first use"


def test_a_gauge_that_is_nan_is_missing_and_never_zero():
    text = re.sub(r"(sglang:hicache_host_used_tokens\{.*\}) .*", r"\1 NaN", metrics_of(LATEST))
    found = numbers(LATEST, text)
    assert found("hicache_engine_used_tokens", tier="host") is None
    assert found.missing["hicache_host_used_tokens"] == "a usable value"


def test_a_gauge_that_is_zero_is_zero():
    text = re.sub(r"(sglang:hicache_host_used_tokens\{.*\}) .*", r"\1 0.0", metrics_of(LATEST))
    assert numbers(LATEST, text)("hicache_engine_used_tokens", tier="host") == 0


def test_without_server_info_nothing_is_claimed_that_depends_on_it():
    found = Numbers(without(metrics_of(LATEST), "load_back_tokens_total"), None)
    assert found("hicache_engine_load_back_tokens") is None
    assert found.missing["load_back_tokens_total"] == "/server_info"
    assert found(HIT, tier="host") == 598


def test_the_device_capacity_comes_from_server_info_until_the_gauge_is_there():
    found = numbers(OLD, without(metrics_of(OLD), "max_total_num_tokens"))
    assert found("hicache_engine_capacity_tokens", tier="device") == 1024
    assert "max_total_num_tokens" not in found.missing


@pytest.mark.parametrize("name", RECORDED)
def test_what_is_missing_is_explained_by_the_version_alone(name):
    """These engines run with every flag and after traffic, so nothing else can be missing."""
    assert {flag[:8] for flag in numbers(name).missing.values()} <= {"sglang>="}


# -- the hit-rate gauge ---------------------------------------------------------------------------------------------
def test_the_hit_rate_gauge_is_not_read():
    text = metrics_of(LATEST)
    assert "sglang:cache_hit_rate" in text
    assert not any("hit_rate" in name for name in WANTED)
    zeroed = re.sub(r"(sglang:cache_hit_rate\{.*\}) .*", r"\1 0.0", text)
    assert numbers(LATEST, zeroed).everything() == numbers(LATEST).everything()


def test_priorities_do_not_count_requests_twice():
    text = re.sub(r"sglang:num_queue_reqs\{(.*)\} .*", r'sglang:num_queue_reqs{priority="",\1} 9.0', metrics_of(LATEST))
    (total,) = re.findall(r"^sglang:num_queue_reqs.*$", text, flags=re.M)
    parts = [total.replace('""', '"1"').replace("9.0", "4.0"), total.replace('""', '"2"').replace("9.0", "5.0")]
    assert numbers(LATEST, text + "\n".join(parts) + "\n")("hicache_engine_queued_requests") == 9


def test_rows_publish_families_of_the_engine_part_only():
    for row in ROWS:
        assert row.family.source == "engine"
        assert names.FAMILIES[row.family.name] is row.family
        ours = set(row.labels) | {row.split.ours if row.split else "", row.dated.label if row.dated else ""}
        assert ours - {""} == set(row.family.labels)
