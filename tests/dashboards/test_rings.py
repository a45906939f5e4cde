"""A session made of recorded rings says what the sidecar beside that engine said, and nothing else."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from hicache_dashboards.session import command, rings
from hicache_dashboards.session.model import Frame, load, samples
from hicache_tracing.records import HEAD_OFFSET

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "exporter" / "recorded"
TP2 = [RECORDED / f"h200-0.5.16-tp2-rank{rank}.ring.gz" for rank in range(2)]
SHIPPED = ROOT / "deploy" / "sessions" / "h200.xz"


@pytest.fixture(scope="module")
def made() -> list[Frame]:
    return list(rings.frames(TP2, every=1.0, begin=48))


def values(frame: Frame) -> dict[str, float]:
    return dict(samples(frame.text))


def tokens_from_l2(frame: Frame) -> float:
    return values(frame)['hicache_hit_tokens_total{engine="127.0.0.1:30000",tier="host"}']


def test_it_ends_with_what_the_sidecar_on_that_machine_served(made: list[Frame]) -> None:
    recorded = dict(samples((RECORDED / "h200-0.5.16-tp2.metrics.txt").read_text()))
    last = values(made[-1])
    assert len(recorded) == 40
    assert {series: last.get(series) for series in recorded} == pytest.approx(recorded)


def test_each_fact_comes_at_its_time(made: list[Frame]) -> None:
    """The lab's first L2 read was 66 seconds after the engine's first request."""
    tokens = [tokens_from_l2(frame) for frame in made]
    assert tokens == sorted(tokens)
    assert set(tokens) == {0, 8192, 16384, 24576}
    assert made[tokens.index(8192)].at == pytest.approx(18, abs=3)
    assert [frame.at for frame in made[:3]] == pytest.approx([0, 1, 2], abs=0.1)


def test_a_recorder_that_is_idle_is_up(made: list[Frame]) -> None:
    for frame in made:
        up = [value for series, value in values(frame).items() if series.startswith("hicache_recorder_up")]
        assert up == [1, 1]


def test_the_shipped_session_is_made_of_these_rings() -> None:
    """Or make it anew, with the command in deploy/sessions/README.md."""
    again = list(rings.frames(TP2, every=1.0, begin=48, name="h200-tp2:30000"))
    shipped = load(SHIPPED)
    for frame in again:
        then, now = dict(samples(shipped.at(frame.at + 0.001))), values(frame)
        assert {series: now.get(series) for series in then} == then, "the sidecar tells it differently now"


def test_a_ring_that_went_round_is_refused(tmp_path: Path) -> None:
    data = bytearray(gzip.decompress(TP2[0].read_bytes()))
    data[HEAD_OFFSET : HEAD_OFFSET + 8] = (1 << 20).to_bytes(8, "little")
    (tmp_path / "round.ring.gz").write_bytes(gzip.compress(bytes(data), 1))
    run = CliRunner().invoke(command.main, ["rings", str(tmp_path / "round.ring.gz"), str(tmp_path / "s.xz")])
    assert run.exit_code == 1
    assert "overwritten" in run.output
    assert not (tmp_path / "s.xz").exists()


def test_a_file_that_is_no_ring_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no ring")
    run = CliRunner().invoke(command.main, ["rings", str(tmp_path / "text"), str(tmp_path / "s.xz")])
    assert run.exit_code == 1
    assert run.output.startswith("Error: no session can be made of these rings:")
    assert not (tmp_path / "s.xz").exists()
