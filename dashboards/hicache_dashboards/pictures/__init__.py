"""Boards as images of our own making, from the answers of a real Prometheus."""
