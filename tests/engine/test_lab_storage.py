"""Series E on a real engine: L3 in plain files, under each of the three prefetch policies.

One server; storage is attached anew for each policy, through the engine's admin API.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec
import pytest
from click.testing import CliRunner

from hicache_proof.demo.engine import Engine, EngineSpec
from hicache_proof.demo.sidecar import Sidecar
from hicache_proof.lab.command import lab
from hicache_proof.lab.run import LabRun

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]

ADMIN = "only-for-this-test"
POLICIES = ("wait_complete", "timeout", "best_effort")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def server(folder: Path):
    """An engine with an admin key, and its sidecar. What is attached later writes into ``folder``/files."""
    (folder / "files").mkdir()
    (folder / "key").write_text(ADMIN)
    spec = EngineSpec(
        max_total_tokens=1536,
        hicache_ratio=3,
        arguments=("--admin-api-key", ADMIN),
        variables={"SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR": str(folder / "files")},
    )
    with Engine(spec, folder / "engine") as engine, Sidecar(engine.url, engine.rings, folder) as sidecar:
        yield engine, sidecar


@pytest.fixture
def attached(server):
    """Attaches storage with that policy until the test ends."""
    engine, _ = server
    with httpx.Client(headers={"Authorization": f"Bearer {ADMIN}"}, timeout=60, trust_env=False) as admin:

        def attach(policy: str) -> None:
            body = {"hicache_storage_backend": "file", "hicache_storage_prefetch_policy": policy}
            admin.put(f"{engine.url}/hicache/storage-backend", json=body).raise_for_status()

        yield attach
        admin.delete(f"{engine.url}/hicache/storage-backend").raise_for_status()


def ask(server, folder: Path, *arguments: str):
    engine, sidecar = server
    line = ["--engine", engine.url, "--sidecar", sidecar.url, "--admin-key-file", str(folder / "key")]
    return CliRunner().invoke(lab, [*line, "--repetitions", "2", "--l3", "--json", *arguments])


@pytest.mark.parametrize("policy", POLICIES)
def test_what_left_l1_and_l2_is_read_from_storage_as_far_as_the_policy_lets_it(server, folder, attached, policy):
    attached(policy)
    result = ask(server, folder, "--flush")
    assert result.exit_code in (0, 1), result.stderr
    run = msgspec.json.decode(result.stdout, type=LabRun)
    assert (run.engine.storage_backend, run.engine.prefetch_policy) == ("file", policy)
    assert run.outcome.verdict == "corroborated", run.outcome.sentence
    assert run.storage.emptied_by == ("flush" if policy == "wait_complete" else "load")
    assert len(list((folder / "files").iterdir())) > 2 * run.plan.prefix_tokens, "a file a page"
    for read in run.of("E"):
        account = read.evidence.attribution
        assert (account.device_tokens or 0) <= 1, "two prompts may begin with the same token"
        assert account.host_tokens == 0, "nothing of it was left in L2"
        assert read.evidence.answer.max_logprob_delta <= read.evidence.answer.tolerance
    if policy == "best_effort":  # an idle engine schedules at once: how much has come by then is chance
        assert run.storage.verdict in ("storage", "storage_in_part", "no_storage_read")
        assert (run.outcome.exit_code == 0) == run.storage.shown
        return
    assert (run.storage.verdict, run.outcome.exit_code) == ("storage", 0), run.storage.sentence
    assert {read.judgement.served_by for read in run.of("E")} <= {"storage", "mixed"}
    assert {read.judgement.rule for read in run.of("E")} == {"storage-through-host"}


def test_a_load_larger_than_l2_empties_it_where_no_flush_is_allowed(server, folder, attached):
    attached("wait_complete")
    assert httpx.post(
        f"{server[0].url}/flush_cache", headers={"Authorization": f"Bearer {ADMIN}"}, timeout=30, trust_env=False
    ).is_success
    result = ask(server, folder)
    assert result.exit_code == 0, result.stderr
    run = msgspec.json.decode(result.stdout, type=LabRun)
    assert (run.storage.verdict, run.storage.emptied_by) == ("storage", "load")


def test_without_storage_it_is_refused_and_the_flush_wants_the_admin_key(server, folder):
    engine, sidecar = server
    refused = ask(server, folder)
    assert refused.exit_code == 2
    assert "has no L3" in refused.stderr
    line = ["--engine", engine.url, "--sidecar", sidecar.url, "--flush"]
    keyless = CliRunner().invoke(lab, line)
    assert keyless.exit_code == 2
    assert "--admin-key-file" in keyless.stderr
