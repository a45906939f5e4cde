"""Dashboards, recording rules and alerts, written as Python over the metric families that the sidecar serves."""
