"""Whatever comes from outside is read, or refused with the error that its reader promises: no crash, hang or growth.

Each property has two budgets: a few examples as an ordinary test, and minutes of new ones in ``make chaos``
(HICACHE_FUZZ_SECONDS each, 600 if not set). What the tests of a part have already is taken from there.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hicache_exporter.core.engine_info import ServerInfoError, read_server_info
from hicache_exporter.emit.otlp_settings import SpanExportError, otlp_settings
from hicache_exporter.serve import serve
from hicache_exporter.sources.targets import TargetError, parse_targets
from hicache_exporter.web_config import WebConfigError, read_web_config
from hicache_proof.compare.side import read
from hicache_proof.verify import UnreadableError, verify

from ..exporter.engine import test_engine_text_properties as text
from ..exporter.ledger import test_any_records as any_records
from ..exporter.ring import test_decoding as decoding
from ..exporter.ring import test_ring as ring
from ..proof.compare.reports import encoded, run
from ..proof.test_certificate import document
from .process_figures import ProcessFigures

SECONDS = float(os.environ.get("HICACHE_FUZZ_SECONDS", "600"))
GROWTH_MIB = 64

INFO = json.dumps(
    {"version": "0.5.23", "tp_size": 2, "dp_size": 1, "page_size": 64, "max_total_num_tokens": 4096, "api_key": "x"}
).encode()
TARGETS = b"- targets: [127.0.0.1:30000, '[::1]:30001']\n  labels: {model: m}\n"
WEB = b"tls_server_config: {cert_file: a, key_file: b}\nbasic_auth_users: {p: $2b$12$abc}\n"
CONFIG = b'engine = ["127.0.0.1:30000"]\nlisten = ":9838"\nring-dir = "/dev/shm/x"\nlog-level = "info"\n'
RUN = encoded(run())
DEEP = 100_000

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """``whole`` with pieces cut out, doubled, or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        start, length = draw(st.integers(0, len(whole))), draw(st.integers(0, 30))
        piece = draw(st.binary(max_size=6) | st.just(whole[start : start + length] * 2) | st.sampled_from(WORDS))
        whole = whole[:start] + piece + whole[start + length :]
    return whole


WORDS = (b"[", b"{", b'"', b"\0", b"\xff", b"1e999", b"-1", b"null", b"&a", b"*a", b"!!python/object", b"\n", b"NaN")


def replaced(whole: bytes) -> st.SearchStrategy[bytes]:
    """A JSON document with another value at one place."""

    def put(choice: tuple[list[int], Any]) -> bytes:
        way, value = choice
        tree = node = json.loads(whole)
        for step in way:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            key = keys[step % len(keys)]
            if not isinstance(node[key], dict | list) or not node[key]:
                break
            node = node[key]
        else:
            keys = list(node) if isinstance(node, dict) else range(len(node))
            key = keys[0]
        node[key] = value
        return json.dumps(tree).encode("utf-8", "surrogatepass")

    return st.tuples(st.lists(st.integers(0, 50), min_size=1, max_size=4), values).map(put)


def anything(whole: bytes) -> st.SearchStrategy[bytes]:
    return damaged(whole) | st.binary(max_size=200)


@given(anything(INFO) | replaced(INFO))
@example(b'{"version": "1", "x": ' + b"[" * DEEP)
@example(b"[" * DEEP)
def server_info(body: bytes) -> None:
    with suppress(ServerInfoError):
        info = read_server_info(body)
        assert info.shape is None or info.shape.sound
        _ = info.release


@given(anything(document()) | replaced(document()))
@example(b"[" * DEEP)
@example(b'{"digest": "", "x": ' + b'{"a":' * DEEP)
@settings(max_examples=50)
def certificate(body: bytes) -> None:
    with suppress(UnreadableError):
        checked = verify(body)
        assert not checked.holds or json.loads(body) == json.loads(document())


@given(anything(RUN))
@example(b"[" * DEEP)
@settings(max_examples=50)
def comparison(body: bytes) -> None:
    with suppress(UnreadableError):
        read(body)


@given(anything(TARGETS), st.booleans())
@example(b"[" * 5000, True)
@example(b"[" * DEEP, False)
def target_file(body: bytes, yaml: bool) -> None:
    with suppress(TargetError):
        parse_targets(body, yaml=yaml)


@given(anything(WEB))
@example(b"[" * 5000)
def web_config(body: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(body)
        with suppress(WebConfigError):
            read_web_config(Path(file.name))


@given(anything(CONFIG))
@example(b"engine = " + b"[" * 5000)
def config_file(body: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(body)
        with suppress(click.UsageError):
            serve.make_context("serve", ["--config", file.name])


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"),
                *("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SDK_DISABLED"),
            ]
        ),
        st.text(max_size=30)
        | st.sampled_from(["grpc", "otlp", "none", "http/protobuf", "http://[", "http://h:99999", "https://h:4318/v1"]),
    )
)
def otlp(environment: dict[str, str]) -> None:
    with suppress(SpanExportError):
        found = otlp_settings(environment)
        assert found is None or found.endpoint


class Scratch:
    """Folders for a property that makes one an example: the one before goes."""

    def __init__(self) -> None:
        self._latest: Path | None = None

    def mktemp(self, name: str) -> Path:
        self.close()
        self._latest = Path(tempfile.mkdtemp(prefix=name))
        return self._latest

    def close(self) -> None:
        if self._latest is not None:
            shutil.rmtree(self._latest)
            self._latest = None


OURS = (server_info, certificate, comparison, target_file, web_config, config_file, otlp)
THEIRS: dict[str, Callable[..., None]] = {
    "ring_file": ring.test_a_corrupted_file_never_raises_anything_else,
    "ring_garbage": decoding.test_garbage_never_raises_and_never_yields_a_record,
    "ring_records": any_records.test_any_records_can_be_told_judged_and_shown,
    "ring_followed": ring.test_read_plus_lost_is_everything_that_was_written,
    "ring_identity": any_records.test_any_identity_is_taken_or_left,
    "exposition_bytes": text.test_any_bytes_are_read_or_refused,
    "exposition_holes": text.test_a_recorded_answer_with_holes_is_read_or_refused,
}


@pytest.mark.parametrize("prove", OURS, ids=lambda prove: prove.__name__)
def test_it_is_read_or_refused(prove: Callable[[], None]) -> None:
    prove()


def test_a_reader_that_crashes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(body: bytes) -> None:
        json.loads(body)

    monkeypatch.setitem(globals(), "read_server_info", careless)
    with pytest.raises((ValueError, ExceptionGroup, AttributeError, RecursionError)):
        server_info()


@pytest.mark.chaos
@pytest.mark.timeout(SECONDS + 300)
@pytest.mark.parametrize("name", [*(prove.__name__ for prove in OURS), *THEIRS])
def test_for_minutes(name: str) -> None:
    prove = THEIRS.get(name) or globals()[name]
    scratch, process = Scratch(), ProcessFigures(os.getpid())
    given_more = {"tmp_path_factory": scratch} if name in ("ring_file", "ring_followed") else {}
    end, before, rounds = time.monotonic() + SECONDS, 0.0, 0
    while time.monotonic() < end:
        prove(**given_more)
        rounds += 1
        if rounds == 3:
            before = process.look()["private_mib"]
    scratch.close()
    assert rounds < 4 or process.look()["private_mib"] < before + GROWTH_MIB
