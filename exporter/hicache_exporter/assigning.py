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
        meant = [engine for engine in candidates if _names(_host(engine), identity.host)]
        here = [engine for engine in candidates if is_local(_host(engine))]
        # in containers an engine goes by a name of theirs: the only one on this port is meant, unless it says otherwise
        only = candidates if len(candidates) == 1 and identity.host in ANY_HOST else []
        return next(iter([*meant, *here, *only]), None)

    return assign


def _host(engine: str) -> str:
    return engine.rpartition(":")[0].strip("[]")


def _port(engine: str) -> int:
    return int(engine.rpartition(":")[2])


def _names(name: str, address: str) -> bool:
    """Whether a host was named by this address or by a name of it."""
    return name == address or (address not in ANY_HOST and address in _addresses(name))


@lru_cache(maxsize=1024)
def _addresses(host: str) -> frozenset[str]:
    try:
        return frozenset(str(found[4][0]) for found in socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM))
    except OSError:
        return frozenset()


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
