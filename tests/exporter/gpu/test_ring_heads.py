"""A cheap look at whether any engine is recording."""

import os

from hicache_exporter.sources.ring_heads import RESCAN_NS, RingHeads
from hicache_tracing.recorder import Recorder
from hicache_tracing.records import Kind


def test_it_moves_with_every_record_of_any_engine(tmp_path):
    folder = tmp_path / "rings"
    recorder = Recorder(str(folder), 64)
    heads = RingHeads(folder)
    before = heads.total(0)
    recorder.write(Kind.FINISH, b"r", 1)
    assert heads.total(1) == before + 1


def test_a_new_ring_is_found_within_a_rescan(tmp_path):
    folder = tmp_path / "rings"
    heads = RingHeads(folder)
    assert heads.total(0) == 0
    Recorder(str(folder), 64).write(Kind.FINISH, b"r", 1)
    assert heads.total(RESCAN_NS - 1) == 0
    assert heads.total(RESCAN_NS) == 1


def test_a_ring_that_is_gone_no_longer_counts(tmp_path):
    folder = tmp_path / "rings"
    Recorder(str(folder), 64).write(Kind.FINISH, b"r", 1)
    heads = RingHeads(folder)
    assert heads.total(0) == 1
    next(folder.glob("*.ring")).unlink()
    assert heads.total(RESCAN_NS) == 0


def test_files_that_are_no_rings_are_left_out(tmp_path):
    (tmp_path / "empty.ring").write_bytes(b"")
    (tmp_path / "short.ring").write_bytes(b"x")
    (tmp_path / "other.ring").write_bytes(b"\xff" * 8192)
    assert RingHeads(tmp_path).total(0) == 0
    assert RingHeads(tmp_path / "nowhere").total(0) == 0


def test_what_somebody_else_puts_there_is_left_alone(tmp_path, monkeypatch):
    """A pipe would hang the probe for ever; a foreign file could be cut under its feet."""
    folder = tmp_path / "rings"
    recorder = Recorder(str(folder), 64)
    recorder.write(Kind.FINISH, b"r", 1)
    os.mkfifo(folder / "pipe.ring")
    (folder / "link.ring").symlink_to(recorder.path)
    assert RingHeads(folder).total(0) == 1
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert RingHeads(folder).total(0) == 0
