"""An SGLang of tomorrow: functions of a real release renamed, re-signed, deleted or moved. The server answers as ever,
what is still as known is recorded, the rest is left alone and reported, and no more is claimed than was seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.releases import NEWEST
from hicache_proof.demo.sidecar import Sidecar
from hicache_tracing.records import Kind, SeamState

from ..tracing.ring import Ring, read
from .driver import Answer, ask, distance, evict, flush, prompt
from .engine_copies import Edit, changed_copy, deleted, renamed

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

TREE = "mem_cache/unified_radix_cache.py"
OLD_TREE = "mem_cache/hiradix_cache.py"
CONTROLLER = "managers/cache_controller.py"
HYBRID = "mem_cache/hybrid_cache/hybrid_cache_controller.py"
POLICY = "managers/schedule_policy.py"
UNRECOGNISED, MISSING, PENDING, ATTACHED = (
    SeamState.UNRECOGNISED,
    SeamState.MISSING,
    SeamState.PENDING,
    SeamState.ATTACHED,
)


@dataclass(frozen=True)
class Tomorrow:
    version: str
    edits: tuple[Edit, ...]
    seams: dict[str, SeamState]
    """What becomes of the seams that the edits touch."""
    lacking: str
    """The line that the engine's log gets on what nothing can be proven without; "" if a proof lacks nothing."""
    verdict: str
    content: str
    moved: tuple[str, str] | None = None


CORE = Tomorrow(
    NEWEST,
    (
        renamed("**/*.py", "PrefillAdder", "PrefillPlanner"),
        renamed(TREE, "_evict_device_leaf", "_evict_leaf"),
        Edit(TREE, r"def init_load_back\(\s+self,", "def init_load_back(self, lane,"),
        Edit(POLICY, r"tree_cache\.init_load_back\(", 'tree_cache.init_load_back("lane",'),
        Edit(HYBRID, r"(priority: Optional\[int\] = None,)(\s+)(node_id: int = -1,)", r"\3\2\1"),
        deleted(CONTROLLER, "evict_host"),
    ),
    {
        "PrefillAdder.add_one_req": MISSING,
        "UnifiedRadixCache._evict_device_leaf": MISSING,
        "UnifiedRadixCache.init_load_back": UNRECOGNISED,
        "HybridCacheController.load": UNRECOGNISED,
        "HybridCacheController.write": UNRECOGNISED,
        "HiCacheController.load": ATTACHED,  # and not what this engine runs: it must not stand in
        "HiCacheController.evict_host": MISSING,
        "ScheduleBatch.prepare_for_extend": ATTACHED,
        "UnifiedRadixCache._demote": ATTACHED,
    },
    "add_one_req, init_load_back, load, write",
    "not_observed",
    "not_checked",
)

EDGES = Tomorrow(
    NEWEST,
    (
        renamed(TREE, "_demote", "_demote_node"),
        renamed(TREE, "_handle_prefetch_result", "_settle_prefetch_result"),
        renamed("**/*.py", "revoke_pending_prefetch", "give_up_prefetch"),
        Edit(POLICY, r"(truncation_align_size: Optional\[int\])(\s+\))", r"\1, lane: int = 0\2"),
        Edit(POLICY, r"class PrefillAdder\b", "class PrefillPlanner"),
        Edit(POLICY, r"\Z", "\n\nPrefillAdder = PrefillPlanner\n"),
        deleted(CONTROLLER, "evict_host"),
    ),
    {
        "UnifiedRadixCache._demote": MISSING,
        "UnifiedRadixCache._handle_prefetch_result": MISSING,
        "UnifiedRadixCache.check_prefetch_progress": UNRECOGNISED,  # the older teller, which would not tell all here
        "UnifiedRadixCache.revoke_pending_prefetch": MISSING,
        "HiCacheController.evict_host": MISSING,
        "PrefillAdder.add_one_req": ATTACHED,
        "UnifiedRadixCache._evict_device_leaf": ATTACHED,
    },
    "",
    "proven",
    "not_checked",  # a read from storage would void signatures, and nobody would tell
)

MOVED = Tomorrow(
    NEWEST,
    (Edit("**/*.py", r"(?<!\w)unified_radix_cache\b", "prefix_cache"),),
    {"UnifiedRadixCache.init_load_back": PENDING, "UnifiedRadixCache.reset": PENDING},
    "init_load_back, loading_check",
    "consistent",
    "not_checked",
    moved=(TREE, "mem_cache/prefix_cache.py"),
)

OLD = Tomorrow(
    "0.5.9",
    (
        renamed(OLD_TREE, "_evict_backuped", "_evict_kept"),
        Edit(OLD_TREE, r"def init_load_back\(\s+self,\s+last_node", "def init_load_back(self, lane, last_node"),
        Edit("**/*.py", r"tree_cache\.init_load_back\(", 'tree_cache.init_load_back("lane",'),
        Edit("managers/schedule_batch.py", r"def prepare_for_extend\(self\)", "def prepare_for_extend(self, lane=0)"),
    ),
    {
        "HiRadixCache._evict_backuped": MISSING,
        "HiRadixCache.init_load_back": UNRECOGNISED,
        "ScheduleBatch.prepare_for_extend": ATTACHED,
    },
    "init_load_back",
    "consistent",
    "not_checked",
)


def told(ring: Ring) -> dict[str, SeamState]:
    return {name: state for name, (state, _, _) in ring.seams.items()}


def scene(engine: Engine) -> dict[str, Answer]:
    """A cold, B from L1, C from L2."""
    flush(engine)
    ids = prompt("tomorrow")
    answers = {"A": ask(engine, ids, request_id="tomorrow-A"), "B": ask(engine, ids, request_id="tomorrow-B")}
    evict(engine, "tomorrow")
    answers["C"] = ask(engine, ids, request_id="tomorrow-C")
    ask(engine, prompt("tomorrow, last", 20), tokens=2)
    return answers


@pytest.fixture
def tomorrow(engines: Callable[[EngineSpec], Engine], tmp_path_factory) -> Callable[[Tomorrow], Engine]:
    def start(copy: Tomorrow) -> Engine:
        folder = changed_copy(copy.version, tmp_path_factory.mktemp("copy"), copy.edits, copy.moved)
        return engines(EngineSpec(version=copy.version, paths=(folder,)))

    return start


@pytest.mark.parametrize(
    "copy",
    [
        pytest.param(CORE, id="core"),
        pytest.param(EDGES, id="edges", marks=pytest.mark.matrix),
        pytest.param(MOVED, id="moved", marks=pytest.mark.matrix),
        pytest.param(OLD, id="old", marks=pytest.mark.matrix),
    ],
)
def test_an_engine_of_tomorrow(engines, tomorrow, tmp_path: Path, copy: Tomorrow) -> None:
    as_ever = scene(engines(EngineSpec(version=copy.version)))
    engine = tomorrow(copy)
    answers = scene(engine)
    answers_as_ever(answers, as_ever)
    (path,) = engine.rings.glob("*.ring")
    ring = read(path)
    is_told(ring, engine.log.read_text(), copy)
    with Sidecar(engine.url, engine.rings, tmp_path) as sidecar:
        proof = httpx.get(f"{sidecar.url}/proofs/tomorrow-C?wait=10", timeout=30, trust_env=False).json()
    judgement = proof["judgement"]
    assert (judgement["verdict"], judgement["content"]) == (copy.verdict, copy.content), judgement


def answers_as_ever(answers: dict[str, Answer], as_ever: dict[str, Answer]) -> None:
    for name, answer in answers.items():
        assert (answer.tokens, answer.by_tier) == (as_ever[name].tokens, as_ever[name].by_tier)
        assert distance(answer, as_ever[name]) == 0
    assert answers["C"].by_tier["host"] == 299


def is_told(ring: Ring, log: str, copy: Tomorrow) -> None:
    states = told(ring)
    assert {name: states[name] for name in copy.seams} == copy.seams
    assert [faults for _, _, faults in ring.seams.values() if faults] == []
    assert (ring.torn, ring.dropped) == ([], 0)
    assert ring.of(Kind.ADMIT), "what is as known is recorded"
    left_alone = re.findall(r"hicache-witness: (\S+) is not as known: left alone", log)
    assert sorted(left_alone) == sorted(name for name, state in states.items() if state is UNRECOGNISED)
    lacking = re.findall(r"nothing can be proven here, not recorded: (.*)", log)
    assert lacking == ([copy.lacking] if copy.lacking else [])
