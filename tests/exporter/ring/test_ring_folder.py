"""Which files of the folder are read, and what is said of the rest."""

import os

import pytest

from hicache_exporter.sources.process import is_alive
from hicache_exporter.sources.ring_folder import RingFolder

from ..scribe import RingFile


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "rings"
    path.mkdir(mode=0o700)
    return path


def test_a_folder_that_does_not_exist_yet_is_no_trouble(tmp_path):
    rings = RingFolder(str(tmp_path / "later"))
    rings.scan()
    assert (rings.rings, rings.trouble) == ({}, None)
    written = RingFile(tmp_path / "later")
    assert rings.changed()
    rings.scan()
    assert list(rings.rings) == [written.path.name]


def test_new_rings_appear_and_removed_ones_go(folder):
    rings = RingFolder(str(folder))
    first = RingFile(folder)
    rings.scan()
    second = RingFile(folder)
    assert rings.changed()
    first.path.unlink()
    gone = rings.scan()
    assert [ring.name for ring in gone] == [first.path.name]
    assert list(rings.rings) == [second.path.name]
    assert not rings.changed()


def test_only_files_named_like_rings_are_looked_at(folder):
    (folder / "notes.txt").write_text("hello")
    rings = RingFolder(str(folder))
    rings.scan()
    assert (rings.rings, rings.refused) == ({}, {})


def test_bad_files_are_refused_with_their_reason_and_cost_no_other_ring(folder):
    good = RingFile(folder)
    (folder / "1-1.ring").write_bytes(b"garbage" * 100000)
    (folder / "1-1.ring").chmod(0o600)
    (folder / "2-2.ring").symlink_to(good.path)
    rings = RingFolder(str(folder))
    rings.scan()
    assert list(rings.rings) == [good.path.name]
    assert {name: reason.reason for name, reason in rings.refused.items()} == {
        "1-1.ring": "not_a_ring",
        "2-2.ring": "symlink",
    }


def test_a_ring_that_its_writer_was_still_making_is_taken_later(folder):
    path = folder / f"{os.getpid()}-1.ring"
    path.touch(mode=0o600)
    rings = RingFolder(str(folder))
    rings.scan()
    assert rings.refused[path.name].reason == "truncated"
    path.unlink()
    written = RingFile(folder)
    written.path.rename(path)
    rings.scan()
    assert (list(rings.rings), rings.refused) == ([path.name], {})


def test_a_damaged_ring_is_not_tried_again(folder):
    written = RingFile(folder)
    rings = RingFolder(str(folder))
    rings.scan()
    from hicache_exporter.sources.ring_file import RingRefusedError

    rings.drop(written.path.name, RingRefusedError("damaged", "its head went back"))
    rings.scan()
    assert (rings.rings, rings.refused[written.path.name].reason) == ({}, "damaged")


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_folder_that_others_may_write_is_refused(folder, mode):
    RingFile(folder)
    folder.chmod(mode)
    rings = RingFolder(str(folder))
    rings.scan()
    assert (rings.rings, rings.trouble.reason) == ({}, "open_to_others")


def test_a_folder_of_another_user_is_refused_and_the_log_says_once_what_to_do(folder, caplog):
    rings = RingFolder(str(folder), owner=os.geteuid() + 1)
    rings.scan()
    rings.scan()
    assert rings.trouble.reason == "foreign_owner"
    (warned,) = caplog.messages
    assert f"belongs to uid {os.geteuid()}: run the sidecar as that user" in warned


def test_a_folder_that_is_a_link_is_refused(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    rings = RingFolder(str(link))
    rings.scan()
    assert rings.trouble.reason == "symlink"


def test_a_process_is_told_from_a_later_one_with_the_same_pid(tmp_path):
    stat = tmp_path / "7"
    stat.mkdir()
    # a name with a bracket in it, then state R and the start time: 1000 ticks after the start of the machine
    fields = ["R"] + ["0"] * 18 + ["1000"] + ["0"] * 20
    (stat / "stat").write_text(f"7 (sglang) (x)) {' '.join(fields)}")
    tick_ns = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert is_alive(7, 1000 * tick_ns, tmp_path)
    assert not is_alive(7, 900 * tick_ns, tmp_path)
    assert not is_alive(8, 1000 * tick_ns, tmp_path)


def test_a_zombie_writes_no_more(tmp_path):
    stat = tmp_path / "7"
    stat.mkdir()
    (stat / "stat").write_text("7 (x) Z " + " ".join(["0"] * 40))
    assert not is_alive(7, 1 << 60, tmp_path)


def test_this_very_process_is_alive():
    import time

    assert is_alive(os.getpid(), time.monotonic_ns())
