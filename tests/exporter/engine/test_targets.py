"""Which engines: one by one, from files of Prometheus's form, and what happens when such a file goes bad."""

from __future__ import annotations

import logging
import os

import pytest

from hicache_exporter.sources.targets import TargetError, Targets, TargetsFile, parse_target, parse_targets


@pytest.mark.parametrize(
    ("text", "engine", "url"),
    [
        ("127.0.0.1:30000", "127.0.0.1:30000", "http://127.0.0.1:30000/metrics"),
        ("http://gpu1:30000", "gpu1:30000", "http://gpu1:30000/metrics"),
        ("https://gpu1", "gpu1:443", "https://gpu1:443/metrics"),
        ("https://gateway:8443/engines/7/metrics", "gateway:8443", "https://gateway:8443/engines/7/metrics"),
        ("[::1]:30000", "[::1]:30000", "http://[::1]:30000/metrics"),
    ],
)
def test_addresses(text, engine, url):
    target = parse_target(text)
    assert (target.engine, target.metrics_url) == (engine, url)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu1", "no port"),
        ("", "no address"),
        ("gpu1:abc", "no address"),
        ("gpu1:99999", "no address"),
        ("http://", "no address"),
        ("http://gpu1:1/?a=b", "no address"),
        ("gpu 1:30000", "no address"),
        ("gpu1\x01:30000", "no address"),
        ("ftp://gpu1:21", "scheme"),
        ("http://me:secret@gpu1:30000", "password"),
        ("http://me:secret@gpu1:bad", "password"),
    ],
)
def test_a_bad_address_is_one_sentence_without_secrets(text, says):
    with pytest.raises(TargetError, match=says) as caught:
        parse_target(text)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


YAML = b"""
- targets: ["gpu1:30000", "gpu2:30000"]
  labels: {cluster: a, __scheme__: https}
- targets: ["gpu3:30000"]
"""
JSON = b'[{"targets": ["gpu1:30000"], "labels": {"__metrics_path__": "/m"}}, {"targets": []}]'


def test_files_of_prometheus_form():
    targets = parse_targets(YAML, yaml=True)
    assert [(t.metrics_url, t.labels) for t in targets] == [
        ("https://gpu1:30000/metrics", {"cluster": "a"}),
        ("https://gpu2:30000/metrics", {"cluster": "a"}),
        ("http://gpu3:30000/metrics", {}),
    ]
    assert [t.metrics_url for t in parse_targets(JSON, yaml=False)] == ["http://gpu1:30000/m"]


@pytest.mark.parametrize(
    "content",
    [
        b"[{",
        b"- targets: [",
        b"just text",
        b"- targets: gpu1:30000",
        b"- target: [gpu1:30000]",
        b"- targets: [gpu1]",
        b"- targets: [gpu1:1]\n  labels: {engine: x}",
        b"- targets: [gpu1:1]\n  labels: {a-b: x}",
        b"- targets: [7]",
        b"- targets: [gpu1:1]\n  lables: {a: x}",
        b"\xff\xfe",
        b"a: &a [*a]",
    ],
)
def test_bad_files_are_refused(content):
    with pytest.raises(TargetError):
        parse_targets(content, yaml=True)


@pytest.fixture
def file(tmp_path):
    class File(TargetsFile):
        def write(self, text: str) -> None:
            fresh = tmp_path / "fresh"
            fresh.write_text(text)
            os.replace(fresh, self.path)

        def engines(self) -> list[str]:
            return [target.engine for target in self.current()]

    return File(tmp_path / "targets.yml")


def test_a_file_is_read_again_when_it_changes(file):
    file.write("- targets: [a:1]")
    assert file.engines() == ["a:1"]
    file.write("- targets: [a:1, b:2]")
    assert file.engines() == ["a:1", "b:2"]
    assert file.ok


def test_a_file_that_has_not_changed_is_not_read(file, monkeypatch):
    file.write("- targets: [a:1]")
    file.current()
    monkeypatch.setattr(file, "_load", lambda: pytest.fail("read again"))
    assert file.engines() == ["a:1"]


@pytest.mark.parametrize("bad", ["[{", "- targets: [nonsense]", ""])
def test_a_bad_file_keeps_the_last_good_list_and_says_so_once(file, bad, caplog):
    file.write("- targets: [a:1]")
    file.current()
    file.write(bad)
    with caplog.at_level(logging.WARNING):
        assert [file.engines() for _ in range(3)] == [["a:1"]] * 3
    assert not file.ok
    assert len(caplog.records) == 1
    file.write("- targets: [b:2]")
    assert file.engines() == ["b:2"]
    assert file.ok


def test_the_same_trouble_written_again_is_said_once_and_another_again(file, caplog):
    for text in ("{bad", "{bad", "- targets: [nonsense]", "- targets: [a:1]", "{bad"):
        file.write(text)
        file.current()
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 3
    assert all(str(file.path) in line and "\n" not in line for line in told)
    assert "no engine of it" in told[0]
    assert "its last good list stays in use (1 engines)" in told[2]


def test_a_file_that_is_gone_keeps_the_last_good_list_too(file):
    file.write("- targets: [a:1]")
    file.current()
    file.path.unlink()
    assert file.engines() == ["a:1"]
    assert not file.ok


def test_a_file_that_was_never_there_gives_no_engines_and_is_not_ok(file):
    assert file.engines() == []
    assert not file.ok


def test_an_engine_that_is_named_twice_is_read_once(file):
    file.write("- targets: [a:1, b:2, a:1]")
    targets = Targets([parse_target("b:2")], [file.path])
    assert [target.engine for target in targets.current()] == ["b:2", "a:1"]
