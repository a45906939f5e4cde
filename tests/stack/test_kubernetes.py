"""The Kubernetes base, as kustomize builds it, against the schemas of Kubernetes and of the Prometheus operator."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from cloudcoil.models.prometheus_operator import v1 as operator

pytestmark = pytest.mark.stack
ROOT = Path(__file__).parents[2]
CORE = ("ConfigMap", "Service", "StatefulSet")
OPERATOR = {"PodMonitor": operator.PodMonitor, "PrometheusRule": operator.PrometheusRule}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def objects() -> list[Json]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    built = subprocess.run(
        ["kubectl", "kustomize", "deploy/kubernetes/base"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return list(yaml.safe_load_all(built.stdout))


def one(objects: list[Json], kind: str) -> Json:
    (found,) = [item for item in objects if item["kind"] == kind]
    return found


def test_every_object_has_a_schema(objects: list[Json]) -> None:
    assert {item["kind"] for item in objects} == {*CORE, *OPERATOR}


@pytest.mark.parametrize("kind", CORE)
def test_kubernetes_accepts(kind: str, objects: list[Json]) -> None:
    for item in (item for item in objects if item["kind"] == kind):
        kubernetes_validate.validate(item, "1.30", strict=True)


@pytest.mark.parametrize("kind", OPERATOR)
def test_the_operator_accepts_and_drops_nothing(kind: str, objects: list[Json]) -> None:
    item = one(objects, kind)
    read = OPERATOR[kind].model_validate(item)
    assert json.loads(read.model_dump_json(by_alias=True, exclude_unset=True)) == item


def test_engine_and_sidecar_share_the_recorder_in_memory(objects: list[Json]) -> None:
    pod = one(objects, "StatefulSet")["spec"]["template"]["spec"]
    rings = next(volume for volume in pod["volumes"] if volume["name"] == "rings")
    assert rings["emptyDir"]["medium"] == "Memory"
    assert all("rings" in {mount["name"] for mount in c["volumeMounts"]} for c in pod["containers"])
    assert pod["shareProcessNamespace"]
    assert pod["securityContext"]["runAsNonRoot"]
    engine, sidecar = pod["containers"]
    folder = next(variable["value"] for variable in engine["env"] if variable["name"] == "HICACHE_WITNESS_DIR")
    assert sidecar["args"][-2:] == ["--ring-dir", folder]


def test_the_scrape_gets_the_job_that_the_alerts_look_for(objects: list[Json]) -> None:
    monitor, engine, rule = (one(objects, kind) for kind in ("PodMonitor", "StatefulSet", "PrometheusRule"))
    labels = engine["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    job = labels[monitor["spec"]["jobLabel"]]
    down = [r["expr"] for g in rule["spec"]["groups"] for r in g["rules"] if r.get("alert") == "HiCacheSidecarDown"]
    assert down == [f'up{{job="{job}"}} == 0']
    ports = {
        port["name"] for container in engine["spec"]["template"]["spec"]["containers"] for port in container["ports"]
    }
    assert {endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]} <= ports


def test_each_board_is_a_config_map_that_grafana_finds(objects: list[Json]) -> None:
    maps = {item["metadata"]["name"]: item for item in objects if item["kind"] == "ConfigMap"}
    boards = {path.stem for path in (ROOT / "dashboards" / "generated" / "grafana").glob("*.json")}
    assert maps.keys() == boards
    for uid, item in maps.items():
        assert item["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert json.loads(item["data"][f"{uid}.json"])["uid"] == uid
        assert len(json.dumps(item)) < 1_000_000, "a ConfigMap holds 1 MiB"
