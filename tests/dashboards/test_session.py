"""A recorded session is served again as if it went on for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from hicache_dashboards.session.model import Frame, Session, load, save

FIRST = '# TYPE hits counter\nhits_total{tier="host"} 100.0 # {trace_id="a"} 1.0 1.5\n# TYPE up gauge\nup 1\n# EOF\n'
LAST = """# TYPE hits counter
hits_total{tier="host"} 160.0
hits_total{tier="device"} 5.0
# TYPE up gauge
up 0
# EOF
"""


@pytest.fixture
def session() -> Session:
    return Session([Frame(0.0, FIRST), Frame(5.0, FIRST.replace("100.0", "130.0")), Frame(10.0, LAST)])


def test_a_frame_is_served_until_the_next_one(session: Session) -> None:
    assert 'hits_total{tier="host"} 100.0\n' in session.at(4.9)
    assert 'hits_total{tier="host"} 130.0\n' in session.at(5.0)


def test_counters_go_on_in_the_next_round_and_gauges_start_over(session: Session) -> None:
    assert session.seconds == 15
    second = session.at(15.0)
    assert 'hits_total{tier="host"} 160.0\n' in second
    assert "up 1\n" in second
    assert 'hits_total{tier="host"} 220.0\n' in session.at(25.0)
    assert 'hits_total{tier="device"} 10.0\n' in session.at(25.0)


def test_no_counter_ever_falls(session: Session) -> None:
    values = [float(session.at(t).split('tier="host"} ')[1].split("\n")[0]) for t in range(100)]
    assert values == sorted(values)


def test_exemplars_are_left_out_since_their_traces_are_not_there(session: Session) -> None:
    assert "trace_id" not in session.at(0)
    assert session.at(0).endswith("# EOF\n")


def test_a_saved_session_is_the_same_when_it_is_read_again(session: Session, tmp_path: Path) -> None:
    save(tmp_path / "s.xz", [Frame(0.0, FIRST), Frame(5.0, LAST)])
    assert load(tmp_path / "s.xz").at(5.0) == Session([Frame(0.0, FIRST), Frame(5.0, LAST)]).at(5.0)
