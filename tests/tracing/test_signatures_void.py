"""A fault of ours may be the very event that voids a signature: good rows must then be unseen, never damaged."""

from __future__ import annotations

import pytest

from hicache_tracing import plugin
from hicache_tracing import session as session_module
from hicache_tracing.guard import FAULTS_ALLOWED
from hicache_tracing.seams import ALL
from hicache_tracing.told import STORAGE, VOIDING, VOIDING_FUNCTIONS

from .engines import engine as running

PROMPT = list(range(4))
RELEASES = {"v0523": "UnifiedRadixCache", "v059": "HiRadixCache"}


class Witness:
    """Signs transfers and forgets them; knows no rows."""

    def __init__(self) -> None:
        self.signed: list[int] = []

    def backed_up(self, transfer, _operations, _ack):
        self.signed.append(transfer)

    def forget(self):
        self.signed.clear()

    def __getattr__(self, _name):
        return lambda *_: None


@pytest.fixture(autouse=True)
def _witnessed(monkeypatch):
    monkeypatch.setattr(session_module, "make_witness", lambda *_: Witness())


def backup(engine, name: str) -> None:
    engine.serve(name, [hash(name) % 1000 + step for step in range(4)])


def seam_of(session, function: str):
    return next(seam for seam in session.seams if seam.name.endswith("." + function) and seam.on)


def test_the_functions_named_are_all_functions_that_we_patch():
    assert {target.name for target in ALL} >= VOIDING_FUNCTIONS


@pytest.mark.parametrize("release", RELEASES)
class TestSignatures:
    def test_are_taken_of_what_is_backed_up(self, release, tmp_path):
        with running(release, tmp_path, {"content": "full"}) as engine:
            backup(engine, "first")
            assert engine.session.witness.signed

    @pytest.mark.parametrize("function", sorted(VOIDING_FUNCTIONS))
    def test_are_all_forgotten_after_a_fault_and_taken_no_more_once_the_seam_is_off(self, release, tmp_path, function):
        with running(release, tmp_path, {"content": "full"}) as engine:
            witness = engine.session.witness
            seam = seam_of(engine.session, function)
            backup(engine, "first")
            seam.fault(MemoryError())
            assert witness.signed == []
            backup(engine, "second")
            assert witness.signed, "one fault does not end the witness"
            for _ in range(FAULTS_ALLOWED):
                seam.fault(MemoryError())
            backup(engine, "third")
            assert witness.signed == []

    def test_stay_after_a_fault_of_a_seam_that_does_not_touch_them(self, release, tmp_path):
        with running(release, tmp_path, {"content": "full"}) as engine:
            backup(engine, "first")
            for _ in range(FAULTS_ALLOWED):
                seam_of(engine.session, "add_one_req").fault(MemoryError())
            assert engine.session.witness.signed

    def test_are_not_taken_where_a_seam_that_voids_them_is_switched_off(self, release, tmp_path):
        off = frozenset({f"{RELEASES[release]}.writing_check"})
        with running(release, tmp_path, {"content": "full", "seams_off": off}) as engine:
            assert engine.session.witness is None
            assert (
                engine.ring().identity["content_mode"]
                == f"refused: {RELEASES[release]}.writing_check is not recorded here"
            )

    @pytest.mark.parametrize("line", VOIDING, ids=lambda line: line[0])
    def test_are_not_taken_where_nobody_tells_that_they_are_void(self, release, tmp_path, monkeypatch, line):
        """An engine of tomorrow, in which that function has another name."""
        kept = tuple(target for target in ALL if target.name not in line)
        monkeypatch.setattr(plugin, "ALL", kept)
        with running(release, tmp_path, {"content": "full"}) as engine:
            engine.serve("first", PROMPT)
            assert engine.session.witness is None
            said = engine.ring().identity["content_mode"]
            assert said == f"refused: {' or '.join(line)} is not recorded here"

    def test_need_nothing_told_of_storage_where_there_can_be_none(self, release, tmp_path, monkeypatch):
        monkeypatch.setattr(plugin, "ALL", tuple(target for target in ALL if target.name not in STORAGE))
        monkeypatch.setattr("hicache_tracing.told._may_store", lambda _parts: False)
        with running(release, tmp_path, {"content": "full"}) as engine:
            backup(engine, "first")
            assert engine.session.witness.signed

    def test_are_taken_where_a_tree_that_is_not_in_use_is_switched_off(self, release, tmp_path):
        off = frozenset({"HiMambaRadixCache.writing_check"})
        with running(release, tmp_path, {"content": "full", "seams_off": off}) as engine:
            backup(engine, "first")
            assert engine.session.witness.signed
