"""Rules and boards as Kubernetes objects, for the Prometheus operator and for Grafana's sidecar."""

from __future__ import annotations

from typing import Any

from hicache_dashboards import rulefile
from hicache_dashboards.boards.model import Board
from hicache_dashboards.config import Settings

LABELS = {"app.kubernetes.io/name": "hicache-witness"}


def prometheus_rule(settings: Settings) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "hicache-witness", "labels": dict(LABELS)},
        "spec": rulefile.both(settings),
    }


def kustomization(boards: tuple[Board, ...]) -> dict[str, Any]:
    """One ConfigMap a board, with the label that Grafana's sidecar looks for; its name stays, so it is replaced."""
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["kubernetes/prometheusrule.yaml"],
        "configMapGenerator": [
            {"name": board.uid, "files": [f"{board.uid}.json=grafana/{board.uid}.json"]} for board in boards
        ],
        "generatorOptions": {
            "disableNameSuffixHash": True,
            "labels": {**LABELS, "grafana_dashboard": "1"},
            "annotations": {"grafana_folder": "HiCache"},
        },
    }
