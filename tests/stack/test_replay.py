"""The recorded sessions that are shipped, played to a real Prometheus: the boards are alive without an engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from hicache_dashboards import config
from hicache_dashboards.boards.catalogue import boards

from .programs import FAST, Prometheus, free_port, running
from .test_panels import filled_in
from .waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
SESSIONS = sorted((Path(__file__).parents[2] / "deploy" / "sessions").glob("*.xz"))
Replayed = tuple[str, Prometheus]
"""Address of the replay, and who scrapes it."""
QUERIES = [(panel.title, query) for board in boards(config.load()) for panel in board.panels for query in panel.queries]


@pytest.fixture(scope="module", params=SESSIONS, ids=lambda path: path.stem)
def replayed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replayed]:
    folder, listen = tmp_path_factory.mktemp("replay"), f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "hicache_dashboards.session", "replay", str(request.param), "--listen", listen]
    with running(command, folder / "replay.log", f"http://{listen}/-/healthy"):
        nobody = f"127.0.0.1:{free_port()}"
        with Prometheus(folder / "prometheus", [{"targets": [listen]}], nobody, FAST).run() as prometheus:
            seen = "sum(increase(hicache_hit_tokens_total[30s])) > 0"
            wait_until(lambda: prometheus.query(seen), "the session has traffic", 90)
            wait_until(lambda: prometheus.query("count_over_time(up[60s]) > 30"), "half a minute has passed", 90)
            yield listen, prometheus


def test_a_session_is_served_as_clean_openmetrics(replayed: Replayed) -> None:
    reply = httpx.get(f"http://{replayed[0]}/metrics", trust_env=False)
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert reply.text.endswith("# EOF\n")


def test_every_panel_has_data_or_says_why_not(replayed: Replayed) -> None:
    _, prometheus = replayed
    silent = [title for title, query in QUERIES if not query.optional and not prometheus.query(filled_in(query.expr))]
    assert silent == []


def test_the_recorded_rules_come_alive(replayed: Replayed) -> None:
    _, prometheus = replayed
    assert prometheus.query("hicache:hit_ratio:recent > 0")
    assert prometheus.query('hicache:tier_ttft_seconds:mean_recent{tier="host"} > 0')
    assert not prometheus.query('up{job="hicache-witness"} == 0')


def test_a_file_that_is_no_session_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hicache_dashboards.session", "replay", str(tmp_path / "none.xz")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 2
    assert "none.xz" in run.stderr
    assert "Traceback" not in run.stderr
