"""Checks of the generated boards and rules, on the files that Grafana and Prometheus will read."""
