"""A port of 127.0.0.1 for a server that is about to start."""

from __future__ import annotations

import random
import socket

from hicache_proof.demo.errors import DemoError

PORTS = range(30000, 32768)
"""Below the range from which the system hands out ports: the server binds its port long after it was chosen."""


def free_port() -> int:
    for port in random.sample(PORTS, k=100):
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise DemoError(f"no free port found between {PORTS.start} and {PORTS.stop - 1}")
