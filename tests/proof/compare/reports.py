"""A report of the lab and a certificate, as small as they can be, and ways to change them."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec

from hicache_proof import certificate
from hicache_proof.certificate import Versions

from ..evidences import EVERYTHING

COLD, READ = (0.300, 0.302, 0.304), (0.100, 0.101, 0.102)
ENGINE = {"url": "http://127.0.0.1:30000", "version": "0.5.22", "model": "tiny", "device": "cuda", "page_size": 64}
RUN: dict[str, Any] = {
    "schema": "hicache-witness/lab-run/1",
    "started_at": "2026-01-01T00:00:00+00:00",
    "versions": {"hicache-witness": "0.1.0", "SGLang": "0.5.22", "Python": "3.12.1", "platform": "Linux"},
    "engine": {**ENGINE, "write_policy": "write_through", "io_backend": "kernel", "tp_size": 1},
    "sidecar_missing": None,
    "plan": {"prefix_tokens": 1000, "question_tokens": 24, "output_tokens": 8, "repetitions": 3},
    "outcome": {"verdict": "corroborated", "content": "intact", "sentence": "read", "deciding": "C1"},
    "effect": {"baseline": "miss", "says": "faster", "why": "so", "ratio": 3.0},
    "control": None,
}


def run(cold: tuple[float, ...] = COLD, read: tuple[float, ...] = READ, **changes: Any) -> dict[str, Any]:
    """``changes``: of the parts that are objects, single fields."""
    made = copy.deepcopy(RUN)
    made["requests"] = [*_requests("A", cold), *_requests("C", read)]
    for name, change in changes.items():
        made[name] = {**made[name], **change} if isinstance(change, dict) and made.get(name) else change
    return made


def _requests(series: str, times: tuple[float, ...]) -> list[dict[str, Any]]:
    evidence = msgspec.to_builtins(EVERYTHING)
    return [
        {
            "series": series,
            "reply": {"request_id": f"{series}{n}", "sent_ns": 5, "first_token_ns": 5 + round(1e9 * seconds)},
            "evidence": evidence,
        }
        for n, seconds in enumerate(times, start=1)
    ]


def issued(**versions: str) -> bytes:
    told = {"tool": "0.1.0", "python": "3.12.1", "platform": "Linux", "engine": "0.5.22", "model": "tiny", **versions}
    return certificate.encode(certificate.issue(EVERYTHING, Versions(**told), "2026-01-01T00:00:00+00:00"))


def encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()
