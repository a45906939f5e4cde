"""Which ring belongs to which engine: a ring tells host and port, an engine was named by its address."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from functools import lru_cache

from hicache_exporter.core.identity import ANY_HOST, Identity
from hicache_exporter.sources.targets import Target


def assign_to(targets: Callable[[], Iterable[Target]], *, named: bool) -> Callable[[Identity], str | None]:
    """A function from a ring's identity to the label of its engine.

    ``named``: engines were named, so a ring of any other one is left alone; otherwise each is its own engine's.
    """

    def assign(identity: Identity) -> str | None:
        if not named:
            return identity.address
        candidates = [target.engine for target in targets() if _port(target.engine) == identity.port]
        exact = [engine for engine in candidates if _host(engine) == identity.host]
        here = [engine for engine in candidates if is_local(_host(engine))]
        return next(iter([*exact, *here]), None)

    return assign


def _host(engine: str) -> str:
    return engine.rpartition(":")[0].strip("[]")


def _port(engine: str) -> int:
    return int(engine.rpartition(":")[2])


@lru_cache(maxsize=1024)
def is_local(host: str) -> bool:
    """Whether an address of this machine is meant: only such a one can be listened on."""
    if host in ANY_HOST:
        return True
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    return any(_can_bind(family, address) for family, _, _, _, address in found)


def _can_bind(family: int, address: tuple[object, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True
