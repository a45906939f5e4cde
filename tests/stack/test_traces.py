"""Spans of real requests at a real collector, and the exemplars in Prometheus that lead to them."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
import pytest

from hicache_exporter.core import span_names as names
from hicache_proof.demo.ports import free_port

from . import traced
from .conftest import Stack
from .receiver import Receiver, Span
from .traffic import prompt
from .waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.engine, pytest.mark.timeout(600)]
DOCS = Path(__file__).parents[2] / "docs"
GUIDE, REFERENCE = DOCS / "guides" / "tracing.md", DOCS / "reference" / "spans.md"
PROTOCOLS = ("grpc", "http/protobuf")
HIT, LOAD = names.HIT.format(tier="host"), names.TRANSFER.format(direction="host_to_device")
UNTRACED = "0" * 16


class Sidecar:
    """One more sidecar on the rings of the stack's engine, a process of our own to signal."""

    def __init__(self, stack: Stack, receiver: Receiver, log: Path, **variables: str) -> None:
        self.listen = f"127.0.0.1:{free_port()}"
        command = ["env", *(f"{name}={value}" for name, value in {**receiver.variables, **variables}.items())]
        command += [sys.executable, "-m", "hicache_exporter", "serve", "--listen", self.listen]
        command += ["--engine", stack.engine.url, "--ring-dir", str(stack.engine.rings)]
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        wait_until(lambda: self._get("/-/ready"), "the sidecar is ready", 30)

    def spans(self, outcome: str) -> float:
        (value,) = re.findall(rf'^hicache_spans_total{{outcome="{outcome}"}} (\S+)$', self._get("/metrics"), re.M)
        return float(value)

    def _get(self, path: str) -> str:
        try:
            return httpx.get(f"http://{self.listen}{path}", trust_env=False, timeout=5).raise_for_status().text
        except httpx.HTTPError:
            return ""


@contextmanager
def one_more(stack: Stack, receiver: Receiver, log: Path, **variables: str) -> Iterator[Sidecar]:
    sidecar = Sidecar(stack, receiver, log, **variables)
    try:
        yield sidecar
    finally:
        sidecar.process.kill()
        sidecar.process.wait()


@pytest.fixture(scope="module")
def receivers(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Receiver]]:
    """By protocol. Two sidecars read the same rings, and each exports its own way."""
    log = tmp_path_factory.mktemp("traces") / "sidecar.log"
    with Receiver("http/protobuf").run() as receiver, one_more(stack, receiver, log):
        yield {"grpc": stack.receiver, "http/protobuf": receiver}


def ask(stack: Stack, prompts: list[list[int]], requests: list[str], **headers: str) -> None:
    body = {"rid": requests, "input_ids": prompts, "sampling_params": {"max_new_tokens": 2, "ignore_eos": True}}
    httpx.post(f"{stack.engine.url}/generate", json=body, headers=headers, timeout=60, trust_env=False)


@pytest.fixture(scope="module")
def shared(stack: Stack, receivers: dict[str, Receiver]) -> list[str]:
    """Ids of two requests that came together and were read from L2 by one transfer."""
    prompts = [prompt(), prompt()]
    for attempt in range(30):
        requests = [f"shared-{attempt}-{index}-{random.getrandbits(32)}" for index in range(2)]
        ask(stack, prompts, requests)
        wait_until(lambda ids=requests: all(told(r, ids) for r in receivers.values()), "both are told", 30)
        if all(transfers(receiver, requests) for receiver in receivers.values()):
            return requests
        time.sleep(1)  # others must push them out of L1 first
    raise AssertionError("never served by one transfer")


def told(receiver: Receiver, requests: list[str]) -> bool:
    return all(receiver.of(request) for request in requests)


def transfers(receiver: Receiver, requests: list[str]) -> list[Span]:
    """Those that served all of the requests."""
    loads = [span for span in list(receiver.spans) if span["name"] == LOAD]
    return [load for load in loads if set(requests) <= {link[2][names.REQUEST_ID] for link in load["links"]}]


def one(spans: list[Span], name: str) -> Span:
    (found,) = [span for span in spans if span["name"] == name]
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_is_a_trace_with_the_tier_that_served_it(
    protocol: str, receivers: dict[str, Receiver], shared: list[str], stack: Stack
) -> None:
    for request in shared:
        spans = receivers[protocol].of(request)
        root, lookup, hit = (one(spans, name) for name in (names.REQUEST, names.LOOKUP, HIT))
        assert root["parent"] == ""
        assert {lookup["parent"], hit["parent"]} == {root["span_id"]}
        assert {len(span["trace_id"]) for span in spans} == {32}
        assert {span["trace_id"] for span in spans} == {root["trace_id"]} != {"0" * 32}
        assert lookup["attributes"][names.SERVED_BY] in ("host", "mixed")
        assert lookup["attributes"][names.VERDICT] in ("proven", "corroborated")
        assert hit["attributes"][names.BASIS] == "measured"
        assert 0 < hit["attributes"][names.HIT_TOKENS] <= root["attributes"][names.INPUT_TOKENS] == len(prompt())
        assert abs(root["end_ns"] / 1e9 - time.time()) < 300
        assert root["resource"]["process.pid"] in stack.engine.scheduler_pids


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_transfer_that_served_two_requests_is_linked_to_both(
    protocol: str, receivers: dict[str, Receiver], shared: list[str]
) -> None:
    receiver = receivers[protocol]
    (load,) = transfers(receiver, shared)
    hits = {request: one(receiver.of(request), HIT) for request in shared}
    links = {link[2][names.REQUEST_ID]: link for link in load["links"]}
    assert load["parent"] == ""
    assert load["attributes"][names.REQUEST_COUNT] == len(links) >= 2
    assert load["attributes"][names.TRANSFER_TOKENS] == sum(link[2][names.HIT_TOKENS] for link in links.values())
    for request, hit in hits.items():
        assert links[request][:2] == (hit["trace_id"], hit["span_id"])
        assert (load["trace_id"], load["span_id"]) in [link[:2] for link in hit["links"]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_names_and_attributes_are_those_of_the_guide(
    protocol: str, receivers: dict[str, Receiver], shared: list[str]
) -> None:
    documented = re.findall(r"`([a-z_.]+(?: [a-z_]+)?)`", GUIDE.read_text() + REFERENCE.read_text())
    ours = [span for span in list(receivers[protocol].spans) if span["scope"][0] == names.SCOPE]
    kinds = {span["name"] for span in ours}
    assert {names.REQUEST, names.LOOKUP, HIT, LOAD} <= kinds <= set(documented)
    assert {key for span in ours for key in span["attributes"]} <= set(documented)


def test_where_sglang_traces_the_request_its_trace_tells_the_tier(stack: Stack, receivers: dict[str, Receiver]) -> None:
    """And so does the caller's, where the caller has one."""
    trace_id, caller, again = f"{random.getrandbits(128):032x}", f"{random.getrandbits(64):016x}", prompt()
    with traced.tracing(stack.engine.url):
        for attempt in count():
            request = f"traced-{attempt}-{trace_id}"
            ask(stack, [again], [request], traceparent=f"00-{trace_id}-{caller}-01")
            wait_until(lambda request=request: stack.receiver.of(request), "it is told", 30)
            if any(span["name"] == HIT for span in stack.receiver.of(request)):
                break
            assert attempt < 30, "L2 never served it"
            time.sleep(1)
    spans = stack.receiver.of(request)
    parent = one(spans, HIT)["parent"]
    wait_until(lambda: any(span["span_id"] == parent for span in list(stack.receiver.spans)), "SGLang tells it", 30)
    (above,) = [span for span in list(stack.receiver.spans) if span["span_id"] == parent]
    assert above["scope"][0] == "sglang server"
    assert {span["trace_id"] for span in (*spans, above)} == {trace_id}
    assert not [span for span in spans if span["name"] == names.REQUEST]


@pytest.mark.parametrize("family", ["hicache_ttft_seconds", "hicache_transfer_seconds"])
def test_an_exemplar_in_prometheus_names_a_trace_that_the_collector_has(
    family: str, stack: Stack, receivers: dict[str, Receiver]
) -> None:
    began = time.time()

    def known() -> list[tuple[float, Span]]:
        roots = {span["trace_id"]: span for span in list(stack.receiver.spans) if span["name"] == names.REQUEST}
        found = stack.prometheus.exemplars(f"{family}_bucket", began - 300)
        assert {series["seriesLabels"]["__name__"] for series in found} <= {f"{family}_bucket"}
        exemplars = [exemplar for series in found for exemplar in series["exemplars"]]
        return [
            (float(exemplar["value"]), roots[exemplar["labels"]["trace_id"]])
            for exemplar in exemplars
            if exemplar["timestamp"] > began and exemplar["labels"]["trace_id"] in roots
        ]

    wait_until(known, f"an exemplar of {family}", 60)
    for value, root in known():
        assert 0 < value <= (root["end_ns"] - root["start_ns"]) / 1e9 + 0.001


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_collector_that_is_pulled_out_costs_spans_and_nothing_else(
    protocol: str, stack: Stack, tmp_path: Path
) -> None:
    quick = {"OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_BSP_SCHEDULE_DELAY": "200", "OTEL_EXPORTER_OTLP_TIMEOUT": "2"}
    with Receiver(protocol).run() as receiver, one_more(stack, receiver, tmp_path / "log", **quick) as sidecar:
        wait_until(lambda: receiver.spans and sidecar.spans("exported"), "spans arrive", 30)
        dropped = sidecar.spans("dropped")  # a busy machine may have been late
        assert sidecar.spans("failed") == 0

        receiver.unplug()
        wait_until(lambda: sidecar.spans("dropped") > dropped, "what found no room is counted", 40)
        wait_until(lambda: sidecar.spans("failed"), "what was refused is counted", 40)

        receiver.spans.clear()
        receiver.plug()
        plugged = time.time_ns()
        wait_until(lambda: any(span["start_ns"] > plugged for span in list(receiver.spans)), "it comes back", 40)

        receiver.unplug()
        lost = sidecar.spans("failed")
        wait_until(lambda: sidecar.spans("failed") > lost, "it is missed again", 40)
        began = time.monotonic()
        sidecar.process.send_signal(signal.SIGTERM)
        assert sidecar.process.wait(10) == 0
        assert time.monotonic() - began < 2
