"""Whatever somebody writes into options and files: a sidecar starts with it, or one sentence says why not."""

import tempfile
from contextlib import suppress
from pathlib import Path

from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hicache_exporter import serve as module
from hicache_exporter.app import COLLECTORS
from hicache_exporter.config import SettingsError, parse_listen
from hicache_exporter.emit.otlp_settings import SpanExportError, otlp_settings
from hicache_exporter.sources.targets import TargetError, parse_target
from hicache_exporter.web_config import WebConfigError, read_web_config

ADDRESSES = st.text() | st.from_regex(r"(https?://)?\[?[a-z0-9.:%@-]*\]?(:[0-9]{0,6})?(/[a-z]*)?", fullmatch=True)
VALUES = (
    st.text(max_size=20) | st.integers() | st.booleans() | st.floats(allow_nan=False) | st.lists(st.text(max_size=9))
)
OPTIONS = ("engine", "engines-file", "ring-dir", "listen", "token-file", "web.config.file", "log-level", "config")


def only(error, call, *arguments):
    """Its value, or None where it refuses with the error that it should."""
    with suppress(error):
        return call(*arguments)
    return None


@given(ADDRESSES)
@example("[::1]:9838")
@example(":99999")
def test_where_to_listen(text):
    found = only(SettingsError, parse_listen, text)
    assert found is None or 0 <= found[1] < 65536


@given(ADDRESSES)
@example("http://user:secret@host:1/x?y#z")
@example("http://[")
def test_which_engine(text):
    only(TargetError, parse_target, text)


@given(st.dictionaries(st.sampled_from(["ENDPOINT", "PROTOCOL", "TRACES_ENDPOINT", "TRACES_PROTOCOL"]), ADDRESSES))
def test_where_spans_go(chosen):
    only(SpanExportError, otlp_settings, {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in chosen.items()})


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
@example(b"basic_auth_users: {a: b}")
@example(b"tls_server_config: []")
@example(b"&a [*a]")
def test_who_may_ask(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "web.yaml"
        path.write_bytes(content)
        only(WebConfigError, read_web_config, path)


def toml(values):
    def written(value):
        if isinstance(value, list):
            return "[" + ", ".join(map(written, value)) + "]"
        if isinstance(value, str):
            return '"' + "".join(f"\\U{ord(letter):08X}" for letter in value) + '"'
        return str(value).lower()

    return "\n".join(f'"{name}" = {written(value)}' for name, value in values.items())


@settings(max_examples=60)
@given(
    st.text(max_size=100)
    | st.dictionaries(st.sampled_from(OPTIONS) | st.sampled_from([f"collector.{c}" for c in COLLECTORS]), VALUES).map(
        toml
    )
)
@example('engine = "a:1"')
@example("listen = 5")
@example('"collector.gpu" = 0')
def test_what_a_file_sets(text):
    started = []

    async def run(settings, security):
        started.append(settings)

    before, module._run = module._run, run
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "witness.toml"
            path.write_text(text, "utf-8", errors="replace")
            done = CliRunner().invoke(module.serve, ["--config", str(path)])
    finally:
        module._run = before
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code in (0, 2), done.output
    assert bool(started) == (done.exit_code == 0)
