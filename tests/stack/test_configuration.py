"""The configuration files themselves, checked by the programs that read them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.stack
ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
PROFILES = ("replay", "cpu", "gpu")


def said(*command: str | Path, folder: Path = ROOT) -> str:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@cache
def composed(profile: str) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(said("docker-compose", "--profile", profile, "config"))
    return parsed


@pytest.mark.parametrize("profile", PROFILES)
def test_compose_reads_every_profile_without_a_word(profile: str) -> None:
    run = subprocess.run(
        ["docker-compose", "--profile", profile, "config", "--quiet"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_every_mounted_file_exists() -> None:
    for service in composed("replay")["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith("/") or Path(source).exists(), source


def test_nothing_listens_beyond_this_machine() -> None:
    ports = [port for service in composed("gpu")["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_containers_are_confined() -> None:
    for name, service in composed("gpu")["services"].items():
        assert service["user"].split(":")[0] not in ("0", "root"), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name
        assert service.get("read_only") or name == "engine-gpu", name


def test_images_are_pinned() -> None:
    for name, service in composed("gpu")["services"].items():
        assert re.search(r":(v?\d+\.\d+\.\d+|local)$", service["image"]), f"{name}: {service['image']}"


def test_each_container_with_a_shell_has_a_health_check() -> None:
    without = {name for name, service in COMPOSE["services"].items() if "healthcheck" not in service}
    assert without == {"tempo", "otel-collector", "traffic"}


def test_the_example_lists_every_setting_with_its_default() -> None:
    used = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", (ROOT / "docker-compose.yml").read_text()))
    example = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env.example").read_text(), flags=re.M))
    assert {**used, "COMPOSE_PROFILES": "replay"} == example


def test_each_profile_starts_one_engine_side_and_the_whole_monitoring() -> None:
    always = {name for name, service in COMPOSE["services"].items() if "profiles" not in service}
    assert always == {"prometheus", "alertmanager", "grafana", "tempo", "otel-collector"}
    for profile in PROFILES:
        sidecars = [n for n, s in COMPOSE["services"].items() if "sidecar" in n and profile in s.get("profiles", ())]
        assert sidecars == [f"sidecar-{profile}"]


def test_prometheus_accepts_its_configuration_and_the_rules(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY / "prometheus", tmp_path / "prometheus")
    shutil.copytree(ROOT / "dashboards" / "generated" / "prometheus", tmp_path / "prometheus" / "rules")
    checked = said("promtool", "check", "config", tmp_path / "prometheus" / "prometheus.yml")
    assert "2 rule files found" in checked


def test_alertmanager_accepts_its_configuration() -> None:
    assert "SUCCESS" in said("amtool", "check-config", DEPLOY / "alertmanager" / "alertmanager.yml")


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("alertname=HiCacheEngineDown", "severity=critical"), "page"),
        (("alertname=HiCacheL2Inert", "severity=warning"), "ticket"),
        (("alertname=HiCacheL2LowYield", "severity=info"), "boards-only"),
        (("alertname=HiCacheContentDamaged", "severity=critical", "purpose=lab"), "lab"),
        (("alertname=HiCacheContentDamaged", "severity=critical", "purpose=production"), "page"),
    ],
)
def test_an_alert_reaches_who_should_hear_it(labels: tuple[str, ...], receiver: str) -> None:
    configuration = f"--config.file={DEPLOY / 'alertmanager' / 'alertmanager.yml'}"
    assert said("amtool", "config", "routes", "test", configuration, *labels).strip() == receiver


def test_inhibitions_name_alerts_that_exist() -> None:
    rules = yaml.safe_load((ROOT / "dashboards" / "generated" / "prometheus" / "hicache-alerts.yaml").read_text())
    known = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    areas = {rule["labels"]["area"] for group in rules["groups"] for rule in group["rules"]}
    shipped = yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yml").read_text())
    matchers = [m for rule in shipped["inhibit_rules"] for m in rule["source_matchers"] + rule["target_matchers"]]
    named = {name for m in matchers if m.startswith("alertname") for name in re.findall(r"HiCache\w+", m)} - {"HiCache"}
    grouped = {area for m in matchers if m.startswith("area") for area in re.findall(r"[\w-]+", m.partition('"')[2])}
    assert named <= known
    assert grouped <= areas


def test_grafana_finds_boards_and_data_sources_where_compose_mounts_them() -> None:
    volumes = dict(v.split(":")[:2] for v in COMPOSE["services"]["grafana"]["volumes"])
    provider = yaml.safe_load((DEPLOY / "grafana" / "dashboards" / "dashboards.yaml").read_text())["providers"][0]
    assert volumes["./dashboards/generated/grafana"] == provider["options"]["path"]
    assert not provider["allowUiUpdates"]
    sources = yaml.safe_load((DEPLOY / "grafana" / "datasources" / "datasources.yaml").read_text())["datasources"]
    by_type = {source["type"]: source for source in sources}
    exemplars = by_type["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert exemplars == [{"name": "trace_id", "datasourceUid": by_type["tempo"]["uid"]}]
    assert by_type["tempo"]["jsonData"]["tracesToMetrics"]["datasourceUid"] == by_type["prometheus"]["uid"]


def test_the_committed_environment_only_chooses_the_profile() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env").read_text(), flags=re.M))
    assert settings == {"COMPOSE_PROFILES": "replay", "COMPOSE_PROJECT_NAME": "hicache-witness"}
    assert not set(settings) & set(os.environ), "the environment of this test would override it"
