"""Tokens that leave a tier: the device (demoted with a host copy, or dropped) and the host."""

from __future__ import annotations

from typing import Any

from hicache_tracing import dialects
from hicache_tracing.cache_classes import CONTROLLER, HIMAMBA, HIRADIX, UNIFIED
from hicache_tracing.guard import Steps
from hicache_tracing.records import ABSENT, EvictCause, Kind, SeamState, Tier
from hicache_tracing.runs import Runs, host_runs
from hicache_tracing.seams.base import Target, argument
from hicache_tracing.session import Session

EVICT = Kind.EVICT
DEVICE, HOST = Tier.DEVICE, Tier.HOST
DEMOTED, DROPPED, HOST_EVICTED = EvictCause.DEMOTED, EvictCause.DROPPED, EvictCause.HOST_EVICTED
ATTACHED = SeamState.ATTACHED

Evicting = tuple[Any, bool, Any, int]
"""Node, whether a copy of it stays, the engine's tracker of what was evicted, and the tokens in it so far."""


def _left_device(session: Session, tree: Any, node: Any, tokens: int, *, kept: bool) -> None:
    if tokens <= 0:
        return
    if session.load_scope is not None:
        session.load_scope.evicted += tokens
    if session.witness is not None:
        session.witness.left_device()
    node_id = dialects.node_id(node)
    count, complete, packed = _kept_in(session, tree, node, node_id, tokens) if kept else (0, 0, b"")
    session.write(
        EVICT,
        b"",
        DEVICE,
        DEMOTED if kept else DROPPED,
        node_id,
        tokens,
        count,
        complete,
        extra=packed,
    )


def _kept_in(session: Session, tree: Any, node: Any, node_id: int, tokens: int) -> Runs:
    """Runs of the host slots that keep the copy. A node whose slots cannot be read leaves them unknown, and no more."""
    ours = tree is session.tree  # else its numbers are of other nodes
    if ours and not getattr(tree, "enable_storage", False):  # which puts rows into nodes that no backup tells of
        known = session.host_copies.of(node_id, tokens)
        if known is not None:
            return known
    reading = session.host_slots
    if not reading.on:
        return 0, 0, b""
    try:
        slots = dialects.host_slots(tree, node)
        kept = host_runs(slots, session.page) if slots is not None else (0, 0, b"")
        if ours:
            session.host_copies.remember(node_id, tokens, kept)
    except Exception as error:
        reading.fault(error)
        return 0, 0, b""
    if not reading.fired:
        reading.state = ATTACHED
        reading.fire()
    return kept


def unified_leaf(session: Session) -> Steps:
    """UnifiedRadixCache._evict_device_leaf, _demote: (node or its id, tracker of tokens)."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Evicting:
        tree = args[0]
        node = argument(args, kwargs, 1, "node_id", kwargs.get("node"))
        tracker = argument(args, kwargs, 2, "tracker")
        backed = dialects.is_backed_up(tree, node) or dialects.write_policy(tree, session.controller) == "write_back"
        return node, backed, tracker, dialects.full_tokens(tracker)

    def after(token: Evicting, _result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        node, backed, tracker, before_tokens = token
        _left_device(session, args[0], node, dialects.full_tokens(tracker) - before_tokens, kept=backed)

    return Steps(before, after)


def unified_drop(session: Session) -> Steps:
    """UnifiedRadixCache._drop_subtree_no_host: the same, and no copy stays."""
    before = unified_leaf(session).before

    def after(token: Evicting, _result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        node, _backed, tracker, before_tokens = token
        _left_device(session, args[0], node, dialects.full_tokens(tracker) - before_tokens, kept=False)

    return Steps(before, after)


def radix_demoted(session: Session) -> Steps:
    """HiRadixCache._detach_backuped or _evict_backuped, HiMambaRadixCache._evict_to_host: give the tokens that left."""
    return _radix(session, kept=True)


def radix_dropped(session: Session) -> Steps:
    """HiRadixCache._evict_regular and _drop_subtree_no_host: no host copy stays."""
    return _radix(session, kept=False)


def _radix(session: Session, *, kept: bool) -> Steps:
    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return argument(args, kwargs, 1, "node", kwargs.get("root"))

    def after(node: Any, result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        _left_device(session, args[0], node, dialects.evicted_tokens(result), kept=kept)

    return Steps(before, after)


def host_slots(session: Session) -> Steps:
    """HiCacheController.evict_host(host_indices): HiRadix frees host slots through it."""

    def after(_token: None, _result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if args[0] is session.controller:
            tokens = argument(args, kwargs, 1, "host_indices").numel()
            session.write(EVICT, b"", HOST, HOST_EVICTED, ABSENT, tokens)

    return Steps(after=after)


def host_tokens(session: Session) -> Steps:
    """UnifiedRadixCache.evict_host: returns the tokens freed, of full attention or of another component's state."""

    def after(_token: None, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        component = argument(args, kwargs, 2, "component_type")
        of_kv = component is None or dialects.is_full(component)
        if of_kv and isinstance(result, int) and result > 0:
            session.write(EVICT, b"", HOST, HOST_EVICTED, ABSENT, result)

    return Steps(after=after)


NODE = (("self", "node_id", "tracker"), ("self", "node", "tracker"))
RADIX_NODE = (("self", "node"), ("self", "root"))

TARGETS = (
    Target(*UNIFIED, "_evict_device_leaf", NODE, unified_leaf),
    Target(*UNIFIED, "_demote", NODE, unified_leaf),
    Target(*UNIFIED, "_drop_subtree_no_host", NODE, unified_drop),
    Target(*UNIFIED, "evict_host", (("self", "num_tokens", "component_type"),), host_tokens),
    Target(*HIRADIX, "_detach_backuped", RADIX_NODE, radix_demoted),
    Target(*HIRADIX, "_evict_backuped", RADIX_NODE, radix_demoted, unless="_detach_backuped"),
    Target(*HIRADIX, "_evict_regular", RADIX_NODE, radix_dropped),
    Target(*HIRADIX, "_drop_subtree_no_host", RADIX_NODE, radix_dropped),
    Target(*HIMAMBA, "_evict_to_host", RADIX_NODE, radix_demoted),
    Target(*HIMAMBA, "_evict_regular", RADIX_NODE, radix_dropped),
    Target(*CONTROLLER, "evict_host", (("self", "host_indices"),), host_slots),
)
