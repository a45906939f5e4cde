"""The trace context that SGLang's own tracing gives a request, read where the oldest and the newest release keep it."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.ports import free_port
from hicache_proof.demo.releases import NEWEST
from hicache_tracing.records import Kind

from ..tracing.ring import read
from .driver import ask, prompt

pytestmark = [pytest.mark.engine, pytest.mark.matrix]

KEEPS_IT_IN = {"0.5.9": "reqs_context[rid]", "0.5.10": "time_stats.trace_ctx", NEWEST: "time_stats.trace_ctx"}
NEEDED = (  # by sglang[tracing], and not in the demo engine's environment
    *("opentelemetry-api", "opentelemetry-sdk", "opentelemetry-semantic-conventions", "opentelemetry-proto"),
    *("opentelemetry-exporter-otlp", "opentelemetry-exporter-otlp-common", "opentelemetry-exporter-http-transport"),
    *("opentelemetry-exporter-otlp-proto-common", "opentelemetry-exporter-otlp-proto-grpc"),
    *("opentelemetry-exporter-otlp-proto-http", "googleapis-common-protos", "grpcio", "protobuf"),
)
WRAP = 1 << 64


def packages(folder: Path) -> Path:
    """A folder with links to these packages of our own environment."""
    folder.mkdir()
    for name in NEEDED:
        files = importlib.metadata.distribution(name).files or []
        for top in {file.parts[0] for file in files if ".." not in file.parts}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(files[0].locate())).parents[len(files[0].parts) - 1] / top)
    return folder


def context(engine: Engine, request_id: str) -> tuple[str, str, int] | None:
    """(trace id, span id, sampled) of the request's TRACE record."""
    (path,) = engine.rings.glob("*.ring")
    found = [record.named() for record in read(path).of(Kind.TRACE) if record.rid == request_id]
    if not found:
        return None
    (fact,) = found
    trace = (fact["trace_id_high"] % WRAP) << 64 | fact["trace_id_low"] % WRAP
    return f"{trace:032x}", f"{fact['span_id'] % WRAP:016x}", fact["sampled"]


@pytest.mark.parametrize("version", KEEPS_IT_IN)
def test_of_a_traced_request_is_its_parent_in_the_clients_trace(engines, tmp_path: Path, version: str) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    tracing = EngineSpec(
        version=version,
        arguments=("--enable-trace", "--otlp-traces-endpoint", nobody),
        paths=(packages(tmp_path / "packages"),),
    )
    engine = engines(tracing)
    ids = RandomIdGenerator()
    trace, span = f"{ids.generate_trace_id():032x}", f"{ids.generate_span_id():016x}"
    ask(engine, prompt("traced"), 2, "traced", headers={"traceparent": f"00-{trace}-{span}-01"})
    ask(engine, prompt("of its own"), 2, "of its own")
    of_the_client, parent, sampled = context(engine, "traced") or ("", "", 0)
    assert (of_the_client, sampled) == (trace, 1)
    assert parent not in (span, "0" * 16), "SGLang's own span of the request, a child of the client's"
    own, parent, _ = context(engine, "of its own") or ("", "", 0)
    assert own not in (trace, "", "0" * 32)
    assert parent not in ("", "0" * 16)


@pytest.mark.parametrize("version", KEEPS_IT_IN)
def test_without_tracing_there_is_none(engines, version: str) -> None:
    engine = engines(EngineSpec(version=version))
    header = {"traceparent": f"00-{1:032x}-{1:016x}-01"}
    ask(engine, prompt("untraced"), 2, "untraced", headers=header)
    assert context(engine, "untraced") is None
