"""L3: prefetch from storage into the host, backup from the host to storage, the backend attached and detached.

The reads and writes themselves run on the engine's storage threads; everything here happens on the scheduler's
thread, where the engine asks for them and collects their results.
"""

from __future__ import annotations

from typing import Any

from hicache_tracing import dialects
from hicache_tracing.cache_classes import CONTROLLERS, TREES
from hicache_tracing.guard import Steps
from hicache_tracing.records import ABSENT, Kind, PrefetchOutcome
from hicache_tracing.runs import host_runs
from hicache_tracing.seams.base import Target, argument
from hicache_tracing.session import Session

STORAGE_PREFETCH = Kind.STORAGE_PREFETCH
STORAGE_BACKUP = Kind.STORAGE_BACKUP
STORAGE_ATTACH = Kind.STORAGE_ATTACH

REQUEST = ("request", "handle", "req_id", "rid")


def _request(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The request id (up to 0.5.19) or a handle with ``rid`` (0.5.20+): the key of the tree's own maps."""
    if len(args) > 1:
        return args[1]
    return next(kwargs[name] for name in REQUEST if name in kwargs)


def _rid(request: Any) -> str:
    return str(getattr(request, "rid", request))


def _operation(entry: Any) -> Any:
    """The prefetch operation in an ``ongoing_prefetch`` entry, whose other fields differ between versions."""
    return next((part for part in entry or () if hasattr(part, "completed_tokens")), None)


def _write(
    session: Session,
    request: Any,
    operation: Any,
    outcome: PrefetchOutcome,
    *,
    asked: int = 0,
    used: int = 0,
    slots: Any = None,
) -> None:
    asked = asked or getattr(operation, "stats_requested_tokens", 0) or len(getattr(operation, "token_ids", None) or ())
    runs, complete, packed = host_runs(slots, session.page) if slots is not None else (0, 1, b"")
    session.write(
        STORAGE_PREFETCH,
        session.key(_rid(request)),
        dialects.number(getattr(operation, "id", None)),
        asked,
        dialects.number(getattr(operation, "storage_hit_count", None)),
        int(getattr(operation, "completed_tokens", 0) or 0),
        used,
        outcome,
        runs,
        complete,
        extra=packed,
    )


def prefetch(session: Session) -> Steps:
    """prefetch_from_storage: asked, or declined at once."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return _request(args, kwargs) in args[0].ongoing_prefetch

    def after(known: bool, _result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tree, request = args[0], _request(args, kwargs)
        if known or not getattr(tree, "enable_storage", False):
            return
        operation = _operation(tree.ongoing_prefetch.get(request))
        if operation is not None:
            _write(session, request, operation, PrefetchOutcome.ASKED)
        elif asked := len(argument(args, kwargs, 3, "new_input_tokens")):
            _write(session, request, None, _why_declined(tree, asked), asked=asked)

    return Steps(before, after)


def _why_declined(tree: Any, asked: int) -> PrefetchOutcome:
    """By the engine's own numbers, in the order in which it looks at them."""
    threshold, page = getattr(tree, "prefetch_threshold", None), getattr(tree, "page_size", None) or 1
    if threshold is not None and asked // page * page < threshold:
        return PrefetchOutcome.TOO_SHORT
    controller = tree.cache_controller
    occupied = getattr(controller, "prefetch_tokens_occupied", None)
    limit = getattr(controller, "prefetch_capacity_limit", None)
    limited = occupied is not None and limit is not None and occupied >= limit
    return PrefetchOutcome.RATE_LIMITED if limited else PrefetchOutcome.DECLINED


def result(session: Session) -> Steps:
    """_handle_prefetch_result(operation), 0.5.19+: what storage delivered is now in the host."""

    def after(_token: None, _result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        operation = argument(args, kwargs, 1, "operation")
        request = getattr(operation, "handle", None) or operation.request_id
        _delivered(session, args[0], request, operation)

    return Steps(after=after)


def progress(session: Session) -> Steps:
    """check_prefetch_progress(request), up to 0.5.18: the same, when the entry disappears."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _operation(args[0].ongoing_prefetch.get(_request(args, kwargs)))

    def after(operation: Any, _result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        request = _request(args, kwargs)
        if operation is not None and request not in args[0].ongoing_prefetch:
            _delivered(session, args[0], request, operation)

    return Steps(before, after)


def _delivered(session: Session, tree: Any, request: Any, operation: Any) -> None:
    used = int(getattr(tree, "prefetch_loaded_tokens_by_reqid", {}).get(request, 0))
    completed = int(operation.completed_tokens or 0)
    slots = getattr(operation, "host_indices", None)
    if slots is not None:
        slots = slots[:completed]
        if session.witness is not None:
            session.witness.overwritten(slots)
    _write(session, request, operation, PrefetchOutcome.TRANSFERRED, used=used, slots=slots)


def revoke(session: Session) -> Steps:
    """revoke_pending_prefetch: given up, by its deadline or for lack of room or hit."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _operation(args[0].ongoing_prefetch.get(_request(args, kwargs)))

    def after(operation: Any, _result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if operation is not None:
            late = getattr(operation, "deadline_expired", False)
            outcome = PrefetchOutcome.DEADLINE if late else PrefetchOutcome.REVOKED
            _write(session, _request(args, kwargs), operation, outcome)

    return Steps(before, after)


def used(session: Session) -> Steps:
    """pop_prefetch_loaded_tokens or _span: the admission takes what was prefetched for this request."""

    def after(_token: None, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tokens = result[0] if isinstance(result, tuple) else result
        if tokens:
            _write(session, _request(args, kwargs), None, PrefetchOutcome.USED, used=int(tokens))

    return Steps(after=after)


def storage_write(session: Session) -> Steps:
    """controller.write_storage: a backup to storage queued; returns the engine's operation id."""

    def after(_token: None, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if args[0] is session.controller and result is not None:
            tokens = len(argument(args, kwargs, 1, "host_indices"))
            session.write(STORAGE_BACKUP, b"", dialects.number(result), tokens, 0)

    return Steps(after=after)


def storage_drain(session: Session) -> Steps:
    """_drain_storage_control_queues_impl: backups whose entry disappears have been acknowledged."""

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if kwargs.get("n_backup") == 0:  # none is acknowledged in this call, and thousands may be under way
            return []
        return list(args[0].ongoing_backup)

    def after(open_before: list[Any], _result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        for operation in open_before:
            if operation not in args[0].ongoing_backup:
                session.write(STORAGE_BACKUP, b"", dialects.number(operation), ABSENT, 1)

    return Steps(before, after)


def _switch(session: Session, attached: int) -> Steps:
    def after(_token: None, result: Any, args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        if args[0] is session.tree:
            session.host_copies.forget()
            succeeded = bool(result[0]) if isinstance(result, tuple) else bool(result)
            session.write(STORAGE_ATTACH, b"", attached, int(succeeded))

    return Steps(after=after)


def attach(session: Session) -> Steps:
    return _switch(session, 1)


def detach(session: Session) -> Steps:
    return _switch(session, 0)


BY_REQUEST = tuple(("self", name) for name in REQUEST)
PROGRESS = (("self", "req_id"),)  # with handles (0.5.20+) deliveries end elsewhere too: it would not tell them all
ASKED = tuple(
    (*form, node, "new_input_tokens") for form in BY_REQUEST for node in ("last_host_node", "last_host_node_id")
)

TARGETS = tuple(
    target
    for module, owner in TREES
    for target in (
        Target(module, owner, "prefetch_from_storage", ASKED, prefetch),
        Target(module, owner, "_handle_prefetch_result", (("self", "operation"),), result),
        Target(module, owner, "check_prefetch_progress", PROGRESS, progress, unless="_handle_prefetch_result"),
        Target(module, owner, "revoke_pending_prefetch", BY_REQUEST, revoke),
        Target(module, owner, "_revoke_pending_prefetch", BY_REQUEST, revoke),
        Target(module, owner, "pop_prefetch_loaded_tokens", BY_REQUEST, used, unless="pop_prefetch_loaded_span"),
        Target(module, owner, "pop_prefetch_loaded_span", BY_REQUEST, used),
        Target(module, owner, "_drain_storage_control_queues_impl", (("self",),), storage_drain),
        Target(module, owner, "attach_storage_backend", (("self", "storage_backend"),), attach),
        Target(module, owner, "detach_storage_backend", (("self",),), detach),
    )
) + tuple(
    Target(module, owner, "write_storage", (("self", "host_indices"),), storage_write) for module, owner in CONTROLLERS
)
