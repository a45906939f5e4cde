"""What the images run, run here: the wheel in a clean environment, with the locked packages and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from hicache_exporter.commands import SUBCOMMANDS
from hicache_proof.demo.ports import free_port

from .programs import running
from .waiting import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "deploy" / "images"
DOCKERFILES = sorted(IMAGES.glob("*.Dockerfile"))


def instructions(dockerfile: Path, name: str) -> list[str]:
    joined = dockerfile.read_text().replace("\\\n", "")
    return re.findall(rf"^{name} (.*)$", joined, flags=re.M)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment as ``sidecar.Dockerfile`` makes it."""
    folder = tmp_path_factory.mktemp("image")
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", str(folder / "venv")],
        [*pip, "wheel", "--no-deps", "--wheel-dir", str(folder / "wheels"), str(ROOT)],
        [*pip, "install", "--require-hashes", "-r", str(ROOT / "requirements" / "sidecar.txt")],
    ):
        subprocess.run(command, check=True, timeout=400, cwd=folder, capture_output=True)
    (wheel,) = (folder / "wheels").glob("hicache_witness-*.whl")
    subprocess.run([*pip, "install", "--no-deps", str(wheel)], check=True, timeout=200, capture_output=True)
    return folder / "venv" / "bin"


def test_the_sidecar_starts_as_its_image_starts_it(installed: Path, tmp_path: Path) -> None:
    (entry,), (arguments,) = (instructions(IMAGES / "sidecar.Dockerfile", name) for name in ("ENTRYPOINT", "CMD"))
    listen = f"127.0.0.1:{free_port()}"
    (program,) = json.loads(entry)
    command = ["env", f"HICACHE_WITNESS_LISTEN={listen}", str(installed / program), *json.loads(arguments)]
    with running(command, tmp_path / "log", f"http://{listen}/-/healthy"):
        served = httpx.get(f"http://{listen}/metrics", trust_env=False).text
    assert "hicache_witness_build_info" in served
    checked = subprocess.run(["promtool", "check", "metrics"], input=served.encode(), capture_output=True, check=False)
    assert checked.stderr == b""


def test_a_session_is_replayed_as_the_image_replays_it(installed: Path, tmp_path: Path) -> None:
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["sidecar-replay"]
    (mounted,) = service["volumes"]
    session, inside = re.fullmatch(r"\$\{HICACHE_SESSION:-(.*)\}:(.*):ro", mounted).groups()  # type: ignore[union-attr]
    words = [str(ROOT / session) if word == inside else word for word in service["command"]]
    listen = f"127.0.0.1:{free_port()}"
    command = ["env", f"HICACHE_WITNESS_LISTEN={listen}", str(installed / "hicache-witness"), *words]
    with running(command, tmp_path / "log", f"http://{listen}/-/ready"):
        served = httpx.get(f"http://{listen}/metrics", trust_env=False).text
        page = httpx.get(f"http://{listen}/runbooks/HiCacheL2Inert", trust_env=False)
    assert "hicache_hit_tokens_total{" in served
    assert "Mitigation" in page.text


def test_the_rules_can_be_rendered_where_the_sdk_of_the_boards_is_not_installed(installed: Path) -> None:
    def said(*command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    assert "grafana" not in said(str(installed / "python"), "-m", "pip", "list")
    assert "HiCacheEngineDown" in said(str(installed / "hicache-witness"), "rules")


def prompt_tokens(engine: str) -> float:
    served = httpx.get(f"{engine}/metrics", trust_env=False).text
    found = re.search(r"sglang:prompt_tokens_total{[^}]*} (\S+)", served)
    return float(found[1]) if found else 0


@pytest.mark.engine
def test_the_demo_engine_starts_as_its_image_starts_it_and_takes_the_traffic(tmp_path: Path) -> None:
    port = free_port()
    program = [sys.executable, str(IMAGES / "engine_cpu.py")]
    rings = tmp_path / "rings" / "recorder"
    settings = ["ENGINE_HOST=127.0.0.1", f"ENGINE_PORT={port}", f"HICACHE_WITNESS_DIR={rings}"]
    engine = f"http://127.0.0.1:{port}"
    with running(["env", *settings, *program], tmp_path / "engine.log", f"{engine}/health", deadline=240):
        traffic = subprocess.Popen([sys.executable, str(IMAGES / "traffic.py"), engine])
        try:
            wait_until(lambda: prompt_tokens(engine) > 0, "the traffic arrives", 60)
        finally:
            traffic.terminate()
            traffic.wait()
    assert list(rings.glob("*.ring"))


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_names_its_base_and_runs_as_nobody_special(dockerfile: Path) -> None:
    bases = [base.split(" AS ")[0] for base in instructions(dockerfile, "FROM")]
    assert all(re.search(r":v?(\d|\$\{SGLANG_VERSION\})", base) for base in bases), bases
    assert instructions(dockerfile, "USER") == ["10001:10001"]
    assert len(instructions(dockerfile, "ENTRYPOINT")) == 1


def test_what_an_image_copies_is_let_through_to_the_build() -> None:
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / path).exists() for path in let_through)
    needed = {"requirements/sidecar.txt", "pyproject.toml", "deploy/images"}
    assert needed <= set(let_through)


def test_compose_calls_subcommands_that_exist() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    called = {s["command"][0] for s in services if "sidecar" in s["image"] and "entrypoint" not in s}
    assert called
    assert called <= SUBCOMMANDS.keys()
