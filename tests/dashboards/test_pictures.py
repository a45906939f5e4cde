"""Pictures of the boards: numbers written as Grafana writes them, and one image a board, with or without data."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from hicache_dashboards import config
from hicache_dashboards.boards.catalogue import boards
from hicache_dashboards.pictures import units
from hicache_dashboards.pictures.answers import Prometheus, Window
from hicache_dashboards.pictures.draw import picture
from hicache_dashboards.pictures.kinds import with_holes
from hicache_dashboards.queries.model import Query

WINDOW = Window(start=1000.0, end=1300.0, scrape=15.0)


class Canned(ThreadingHTTPServer):
    """A Prometheus that answers each query alike, and remembers what it was asked."""

    def __init__(self, labels: dict[str, str] | None) -> None:
        self.labels, self.asked = labels, list[str]()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Canned

    def do_GET(self) -> None:
        self.server.asked.append(parse_qs(urlsplit(self.path).query)["query"][0])
        samples = [[1000 + 15 * i, str(i % 5)] for i in range(20)]
        one = {"metric": self.server.labels, "values": samples, "value": samples[-1]}
        body = json.dumps({"data": {"result": [] if self.server.labels is None else [one]}}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def canned(request: pytest.FixtureRequest) -> Iterator[Canned]:
    server = Canned(request.param)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (0.1234, "percentunit", "12.3 %"),
        (0.0421, "s", "42.1 ms"),
        (90.0, "s", "90 s"),
        (0.0, "s", "0 s"),
        (49_900_000_000.0, "Bps", "49.9 GB/s"),
        (2048.0, "bytes", "2 KiB"),
        (12_300.0, "si:tok/s", "12.3 ktok/s"),
        (float("nan"), "percentunit", "no traffic"),
        (1_835_008.0, "short", "1.84 M"),
    ],
)
def test_a_number_is_written_in_its_unit(value: float, unit: str, written: str) -> None:
    assert units.text(value, unit).strip() == written


@pytest.mark.parametrize("canned", [{"tier": "host"}], indirect=True)
def test_a_query_is_asked_over_everything_with_durations_filled_in(canned: Canned) -> None:
    query = Query('sum by (tier) (rate(x{job=~"$job",engine=~"$engine"}[$__rate_interval]))', "{{tier}} hits")
    (series,) = Prometheus(canned.url).ask(query, WINDOW)
    assert canned.asked == ['sum by (tier) (rate(x{job=~".+",engine=~".+"}[60s]))']
    assert (series.name, len(series.values)) == ("host hits", 20)


@pytest.mark.parametrize(
    "canned", [None, {"tier": "host", "le": "0.5", "gpu": "GPU-a"}], indirect=True, ids=["empty", "full"]
)
@pytest.mark.parametrize("uid", ["hicache-overview", "hicache-storage"])
def test_a_board_becomes_an_image(uid: str, canned: Canned, tmp_path: Path) -> None:
    board = next(board for board in boards(config.load()) if board.uid == uid)
    picture(board, Prometheus(canned.url), WINDOW, tmp_path / "board.png")
    assert (tmp_path / "board.png").read_bytes().startswith(b"\x89PNG")
    assert len(canned.asked) == sum(len(panel.queries) for panel in board.panels)


def test_no_line_runs_over_what_is_missing() -> None:
    times, values = with_holes([0.0, 5.0, 10.0, 60.0, 65.0], [1.0, 2.0, 3.0, 4.0, 5.0])
    assert times == [0, 5, 10, 15, 60, 65]
    assert [math.isnan(value) for value in values] == [False, False, False, True, False, False]
    assert with_holes([], []) == ([], [])
    assert with_holes([7.0], [1.0]) == ([7.0], [1.0])
