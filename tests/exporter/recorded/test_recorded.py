"""Rings recorded on H200 GPUs, judged by today's ledger and rules. What the engines did then does not change."""

from __future__ import annotations

from pathlib import Path

import pytest

from hicache_exporter.judging import Proof

from .replay import replay

SINGLE = ("h200-0.5.23-unified", "h200-0.5.16-hiradix", "h200-0.5.16-unified-direct")
LENGTHS = (2048, 8192, 32000)
BYTES_A_TOKEN = 57_344


def of(proofs: dict[str, Proof], series: str, length: int) -> Proof:
    (found,) = [proof for rid, proof in proofs.items() if rid.endswith(f"-{series}-{length}")]
    return found


@pytest.mark.parametrize("name", SINGLE)
def test_what_came_from_host_memory_is_corroborated_by_its_content(tmp_path: Path, name: str) -> None:
    _, proofs = replay(tmp_path, name)
    for length in LENGTHS:
        proof = of(proofs, "C", length)
        assert (proof.judgement.served_by, proof.judgement.verdict) == ("host", "corroborated"), proof.judgement.reasons
        assert proof.judgement.content == "intact"
        content = proof.evidence.content
        assert content is not None
        assert (content.checked, content.mismatched, content.unseen) == (length, 0, 0)
        assert {of(proofs, series, length).judgement.verdict for series in "ABD"} == {"no_read"}
        assert of(proofs, "B", length).judgement.served_by == "device"


@pytest.mark.parametrize("name", SINGLE)
def test_the_device_clock_shows_the_bandwidth_of_the_bus(tmp_path: Path, name: str) -> None:
    _, proofs = replay(tmp_path, name)
    (transfer,) = of(proofs, "C", 32000).evidence.transfers or ()
    assert transfer.bytes == 32000 * BYTES_A_TOKEN
    assert transfer.device_seconds is not None
    assert 45e9 < transfer.bytes / transfer.device_seconds < 55e9


def test_one_damaged_row_of_8192_is_found(tmp_path: Path) -> None:
    _, proofs = replay(tmp_path, "h200-0.5.23-one-row-damaged")
    proof = of(proofs, "C", 8192)
    assert proof.judgement.served_by == "host"
    assert proof.judgement.content == "damaged"
    content = proof.evidence.content
    assert content is not None
    assert (content.checked, content.mismatched) == (8192, 1)


def test_two_ranks_agree_and_each_moves_half_the_bytes(tmp_path: Path) -> None:
    engine, proofs = replay(tmp_path, "h200-0.5.16-tp2-rank0", "h200-0.5.16-tp2-rank1")
    served = [proof for rid, proof in proofs.items() if rid.endswith("-C")]
    assert len(served) == 3
    for proof in served:
        assert (proof.judgement.verdict, proof.judgement.content) == ("corroborated", "intact")
        (transfer,) = proof.evidence.transfers or ()
        assert (transfer.tokens, transfer.bytes) == (8192, 8192 * BYTES_A_TOKEN // 2)
        (sibling,) = proof.evidence.ranks
        assert (sibling.host_tokens, sibling.loaded_tokens, sibling.mismatched) == (8192, 8192, 0)
    moved = {rank: totals.transfer_tokens["host_to_device"] for rank, totals in engine.totals.items()}
    assert moved == {"tp0": 3 * 8192, "tp1": 3 * 8192}


def test_damage_on_one_rank_is_reported_as_that_rank(tmp_path: Path) -> None:
    _, proofs = replay(tmp_path, "h200-0.5.16-tp2-damaged-rank0", "h200-0.5.16-tp2-damaged-rank1")
    proof = proofs["cor-C"]
    assert proof.judgement.content == "damaged"
    content = proof.evidence.content
    assert content is not None
    assert content.mismatched == 0, "this rank's own rows are intact"
    assert [(view.rank, view.mismatched) for view in proof.evidence.ranks] == [("tp1", 1)]


@pytest.mark.parametrize("name", SINGLE)
def test_what_real_engines_call_cached_is_the_sum_of_their_tiers(tmp_path: Path, name: str) -> None:
    engine, proofs = replay(tmp_path, name)
    assert proofs
    assert {kind: sum(t.hit_difference[kind] for t in engine.totals.values()) for kind in ("unplaced", "surplus")} == {
        "unplaced": 0,
        "surplus": 0,
    }
