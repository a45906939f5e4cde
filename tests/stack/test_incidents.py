"""Break the real engine, and see the right alert arrive at the right receiver, with its runbook, and resolve."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from .conftest import Stack
from .waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.engine, pytest.mark.timeout(900)]
RUNBOOKS = Path(__file__).parents[2] / "dashboards" / "runbooks"
LONG = 150.0


@pytest.fixture(autouse=True)
def usual(stack: Stack) -> None:
    """Every incident begins with a healthy engine whose usual values are known."""
    stack.traffic.repeating = True
    norm = "hicache:hit_ratio:baseline and hicache:ttft_seconds:mean_baseline and hicache:hit_ratio:recent > 0.5"
    wait_until(lambda: stack.prometheus.query(norm), "the engine has a norm, and is at it", LONG)
    wait_until(lambda: not stack.prometheus.alerts(), f"nothing fires, but {stack.prometheus.alerts()} did", LONG)


def assert_told(stack: Stack, alert: str, since: int, receiver: str, says: str) -> None:
    told, message = stack.webhook.wait(alert, "firing", LONG, since)
    assert told == receiver
    assert says in message["annotations"]["summary"]
    page = message["annotations"]["runbook_url"].rpartition("/")[2]
    assert (RUNBOOKS / f"{page}.md").exists()
    assert stack.engine.url.removeprefix("http://") == message["labels"].get("engine", stack.engine.url[7:])


def test_damaged_content_pages_at_once(stack: Stack) -> None:
    since = len(stack.webhook.told)
    with stack.fault("damage"):
        assert_told(stack, "HiCacheContentDamaged", since, "page", "differ from what was backed up")
    stack.webhook.wait("HiCacheContentDamaged", "resolved", LONG, since)


def test_prompts_that_stop_repeating_open_a_ticket_for_the_hit_rate_and_for_the_idle_l2(stack: Stack) -> None:
    since = len(stack.webhook.told)
    stack.traffic.repeating = False
    assert_told(stack, "HiCacheHitRateDropped", since, "ticket", "Hit rate of")
    assert_told(stack, "HiCacheL2Inert", since, "ticket", "0 loaded back")
    stack.traffic.repeating = True
    stack.webhook.wait("HiCacheHitRateDropped", "resolved", LONG, since)
    stack.webhook.wait("HiCacheL2Inert", "resolved", LONG, since)


def test_slow_prefills_open_a_ticket_for_ttft(stack: Stack) -> None:
    since = len(stack.webhook.told)
    with stack.fault("slow"):
        assert_told(stack, "HiCacheTtftRegressed", since, "ticket", "TTFT (")
    stack.webhook.wait("HiCacheTtftRegressed", "resolved", LONG, since)


def test_an_engine_that_does_not_answer_pages_and_silences_what_follows_from_it(stack: Stack) -> None:
    since = len(stack.webhook.told)
    with stack.frozen():
        assert_told(stack, "HiCacheEngineDown", since, "page", "can't be read")
        time.sleep(7)  # longer than any other alert would wait
    stack.webhook.wait("HiCacheEngineDown", "resolved", LONG, since)
    during = {message["labels"]["alertname"] for _, message in stack.webhook.told[since:]}
    assert during == {"HiCacheEngineDown"}


def test_a_sidecar_that_is_gone_pages_and_comes_back(stack: Stack) -> None:
    since = len(stack.webhook.told)
    stack.sidecars.close()
    try:
        assert_told(stack, "HiCacheSidecarDown", since, "page", "does not answer")
    finally:
        stack.start_sidecar()
    stack.webhook.wait("HiCacheSidecarDown", "resolved", LONG, since)


def test_a_lab_run_pages_nobody(stack: Stack) -> None:
    since = len(stack.webhook.told)
    stack.prometheus.watch([{"targets": [stack.sidecar], "labels": {"purpose": "lab"}}])
    try:
        wait_until(lambda: stack.prometheus.query('hicache_engine_up{purpose="lab"}'), "the target is labelled", LONG)
        with stack.fault("damage"):
            assert_told(stack, "HiCacheContentDamaged", since, "lab", "differ from what was backed up")
    finally:
        stack.prometheus.watch([{"targets": [stack.sidecar]}])
    told = [(receiver, message["labels"].get("purpose")) for receiver, message in stack.webhook.told[since:]]
    assert {receiver for receiver, purpose in told if purpose == "lab"} == {"lab"}
    assert "page" not in {receiver for receiver, _ in told}
