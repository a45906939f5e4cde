"""The programs of the stack, started natively with the configuration files that the containers mount.

What is changed, and why: addresses of the targets (no container names here), the clock (seconds instead of minutes),
and the receivers (a webhook of the test where the shipped file has none).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import yaml

from hicache_proof.demo import leash
from hicache_proof.demo.ports import free_port

Groups = list[dict[str, Any]]
"""Targets, in the form of file_sd."""
DEPLOY = Path(__file__).parents[2] / "deploy"
FAST = (
    *("scrape.interval=1s", "windows.evaluation=1s", "windows.recent=15s", "windows.trend=30s"),
    *("windows.baseline=60s", "windows.season=1h", "windows.sustained=3s", "windows.brief=3s", "windows.event=20s"),
    *("burn.fast_long=30s", "burn.fast_short=15s", "burn.slow_long=60s", "burn.slow_short=30s"),
    *("traffic.prompt_tokens_per_second=10", "traffic.requests_per_second=0.1", "traffic.moved_tokens_per_trend=300"),
    *("ttft.regression=2", "l2.yield_window=60s"),
    # The demo engine's L2 is a few thousand tokens: on a quick machine, usual traffic replaces it many times over.
    "l2.turnover_per_trend=100",
)
"""The rules with seconds for minutes, as ``hicache-witness rules --set ...`` renders them."""


@contextmanager
def running(command: list[str], log: Path, ready: str, deadline: float = 60) -> Iterator[subprocess.Popen[bytes]]:
    """A program that dies with us; waits until ``ready`` answers with success."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", leash.__file__, *command], stdin=subprocess.PIPE, stdout=output, stderr=output
        )
    try:
        _wait_for(ready, process, log, time.monotonic() + deadline)
        yield process
    finally:
        process.communicate(timeout=leash.GRACE + 30)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path, deadline: float) -> None:
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{process.args} ended:\n{log.read_text()[-3000:]}"
        try:
            if httpx.get(url, timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"{url} did not answer:\n{log.read_text()[-3000:]}")


class Prometheus:
    def __init__(
        self,
        folder: Path,
        targets: list[dict[str, Any]],
        alertmanager: str,
        overrides: tuple[str, ...],
        *,
        quick: bool = True,
    ) -> None:
        """``quick``: every second, not as often as the shipped configuration has it."""
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._client = httpx.Client(base_url=f"{self.url}/api/v1/", timeout=30, trust_env=False)
        shutil.copytree(DEPLOY / "prometheus", folder)
        shipped = (folder / "prometheus.yml").read_text()
        assert "scrape_interval: 15s" in shipped
        faster = shipped.replace("15s", "1s").replace("timeout: 10s", "timeout: 1s").replace("30s", "1s")
        (folder / "prometheus.yml").write_text(faster if quick else shipped)
        self.watch(targets)
        self._targets("alertmanager", [{"targets": [alertmanager]}])
        self._targets("monitoring", [{"targets": [f"127.0.0.1:{self.port}"]}])
        (folder / "rules").mkdir()
        rules = [sys.executable, "-m", "hicache_exporter", "rules"]
        options = [word for override in overrides for word in ("--set", override)]
        rendered = subprocess.run([*rules, *options], capture_output=True, text=True, check=True, timeout=60).stdout
        (folder / "rules" / "hicache.yaml").write_text(rendered)

    def watch(self, targets: Groups) -> None:
        """Prometheus reads the file again by itself when it changes."""
        self._targets("hicache-witness", targets)

    def _targets(self, name: str, groups: Groups) -> None:
        (self.folder / "targets" / f"{name}.yaml").write_text(yaml.safe_dump(groups))

    @contextmanager
    def run(self) -> Iterator[Prometheus]:
        command = [
            "prometheus",
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--enable-feature=exemplar-storage",
        ]
        with self._client, running(command, self.folder / "prometheus.log", f"{self.url}/-/ready"):
            yield self

    def query(self, expr: str) -> list[dict[str, Any]]:
        return self._api("query", query=expr)["result"]  # type: ignore[no-any-return]

    def exemplars(self, expr: str, since: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._api("query_exemplars", query=expr, start=since, end=time.time())
        return found

    def alerts(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self._api("alerts")["alerts"] if alert["state"] == "firing"}

    def _api(self, what: str, **parameters: Any) -> Any:
        reply = self._client.get(what, params=parameters).json()
        assert reply["status"] == "success", reply
        return reply["data"]


class Alertmanager:
    def __init__(self, folder: Path, webhook: str) -> None:
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True)
        shipped = yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yml").read_text())
        for receiver in shipped["receivers"]:
            receiver["webhook_configs"] = [{"url": f"{webhook}/{receiver['name']}", "send_resolved": True}]
        shipped["route"] |= {"group_wait": "1s", "group_interval": "1s"}
        for route in shipped["route"]["routes"]:
            route.pop("group_wait", None)
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(shipped))

    @contextmanager
    def run(self) -> Iterator[Alertmanager]:
        command = [
            "prometheus-alertmanager",
            f"--config.file={self.folder / 'alertmanager.yml'}",
            f"--storage.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
        ]
        with running(command, self.folder / "alertmanager.log", f"http://127.0.0.1:{self.port}/-/ready"):
            yield self


class Webhook:
    """Where Alertmanager's receivers lead: remembers who was told what."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        """Receiver and alert, in order of arrival."""
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.told += [(self.path.strip("/"), alert) for alert in body["alerts"]]
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def run(self) -> Iterator[Webhook]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        yield self
        self._server.shutdown()
        self._server.server_close()
        thread.join()

    def wait(self, alert: str, status: str, deadline: float, since: int = 0) -> tuple[str, dict[str, Any]]:
        """Who was told of it first, and the alert. ``since``: how many messages to pass over."""
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            for receiver, message in self.told[since:]:
                if (message["labels"]["alertname"], message["status"]) == (alert, status):
                    return receiver, message
            time.sleep(0.2)
        seen = {(receiver, m["labels"]["alertname"], m["status"]) for receiver, m in self.told[since:]}
        raise AssertionError(f"{alert} was not {status} within {deadline} s; told: {sorted(seen)}")
