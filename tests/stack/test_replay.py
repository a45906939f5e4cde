"""The recorded sessions that are shipped, played to a real Prometheus: the boards are alive without an engine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import httpx
import pytest

from hicache_dashboards import config, rulefile
from hicache_dashboards.boards.catalogue import boards
from hicache_dashboards.queries.model import Query
from hicache_proof.demo.ports import free_port

from .programs import FAST, Prometheus, running
from .test_panels import filled_in
from .waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
SESSIONS = sorted((Path(__file__).parents[2] / "deploy" / "sessions").glob("*.xz"))
RINGS_ONLY = {"h200"}
"""Sessions made of recorded rings: nobody kept what the engine, its GPUs and its machine told meanwhile."""
ON_AN_H200 = (
    *("Verdicts in the time range", "Content checks", "L2 reads proven", "Cold against L2 hit", "Lifetime in L2"),
    *("Bytes moved, claimed by the recorder and by the engine", "Duration by direction", "Load-back wait"),
    *("Hit rate by tier", "Reuse gap", "Tokens leaving a tier, by cause", "Recorders", "Rings", "Seams by state"),
)
QUERIES = [(panel.title, query) for board in boards(config.load()) for panel in board.panels for query in panel.queries]
RULES = {
    rule["record"]: rule["expr"]
    for group in rulefile.recording_file(config.load())["groups"]
    for rule in group["rules"]
}


READ = "sum(increase(hicache_hit_tokens_total{tier='host'}[30s])) > 0"
WATCHED = "count_over_time(up[60s]) > 16"


@dataclass
class Replayed:
    name: str
    url: str
    prometheus: Prometheus

    @cached_property
    def families(self) -> set[str]:
        """What the session has, under the names of its samples."""
        return set(re.findall(r"^([a-z_]+)[{ ]", httpx.get(f"{self.url}/metrics", trust_env=False).text, re.M))

    def lacks(self, query: Query) -> set[str]:
        """What a query reads, itself or through recorded series, and the session does not have."""
        return read(query.expr) - self.families - {"up"}

    def answers(self, query: Query) -> bool:
        return bool(self.prometheus.query(filled_in(query.expr)))


def read(expr: str) -> set[str]:
    """The families that an expression reads."""
    found = set(re.findall(r"\bhicache_\w+", expr))
    for record in set(re.findall(r"\bhicache:[\w:]+", expr)):
        found |= read(RULES[record])
    return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Replayed]]:
    """All at once, so that the half minute that the windows need passes once."""
    sessions = {}
    with ExitStack() as programs:
        for path in SESSIONS:
            folder, listen = tmp_path_factory.mktemp(path.stem), f"127.0.0.1:{free_port()}"
            command = [sys.executable, "-m", "hicache_exporter.cli", "replay", str(path), "--listen", listen]
            programs.enter_context(running(command, folder / "replay.log", f"http://{listen}/-/healthy"))
            prometheus = Prometheus(folder / "prometheus", [{"targets": [listen]}], f"127.0.0.1:{free_port()}", FAST)
            programs.enter_context(prometheus.run())
            sessions[path.stem] = Replayed(path.stem, f"http://{listen}", prometheus)
        for session in sessions.values():
            wait_until(partial(session.prometheus.query, READ), "L2 is read", 90)
            wait_until(partial(session.prometheus.query, WATCHED), "the windows are full", 90)
        yield sessions


@pytest.fixture(params=[path.stem for path in SESSIONS])
def replayed(request: pytest.FixtureRequest, played: dict[str, Replayed]) -> Replayed:
    return played[request.param]


def test_a_session_is_served_as_clean_openmetrics(replayed: Replayed) -> None:
    reply = httpx.get(f"{replayed.url}/metrics", trust_env=False)
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert reply.text.endswith("# EOF\n")


def test_the_runbooks_are_served_too(played: dict[str, Replayed]) -> None:
    reply = httpx.get(f"{played['cpu'].url}/runbooks/HiCacheL2Inert", trust_env=False)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h1>HiCacheL2Inert</h1>" in reply.text


def test_every_panel_has_data_or_says_why_not(replayed: Replayed) -> None:
    silent = [(title, query) for title, query in QUERIES if not query.optional and not replayed.answers(query)]
    if replayed.name in RINGS_ONLY:
        silent = [(title, query) for title, query in silent if not replayed.lacks(query)]
    assert [title for title, _ in silent] == []


def test_the_recorded_rules_come_alive(replayed: Replayed) -> None:
    for rule in ("hicache:hit_ratio:recent", 'hicache:tier_ttft_seconds:mean_recent{tier="host"}'):
        assert replayed.prometheus.query(f"max_over_time({rule}[60s]) > 0")
    assert not replayed.prometheus.query('up{job="hicache-witness"} == 0')


@pytest.mark.parametrize("title", ON_AN_H200)
def test_what_the_rings_of_h200s_told_is_on_the_boards(title: str, played: dict[str, Replayed]) -> None:
    asked = [query for panel, query in QUERIES if panel == title]
    assert asked
    assert any(played["h200"].answers(query) for query in asked)


def test_what_nobody_kept_of_the_h200s_is_missing_and_not_zero(played: dict[str, Replayed]) -> None:
    kept = {family.split("_")[1] for family in played["h200"].families}
    assert not kept & {"engine", "gpu", "pcie", "host", "rank"}


def test_a_file_that_is_no_session_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hicache_exporter.cli", "replay", str(tmp_path / "none.xz")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 2
    assert "none.xz" in run.stderr
    assert "Traceback" not in run.stderr
