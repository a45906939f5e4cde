"""Put the seams in place: each one when the engine itself imports the module it lives in."""

from __future__ import annotations

import atexit
import os
import sys
from collections import defaultdict
from functools import partial
from types import ModuleType

from hicache_tracing import import_hook
from hicache_tracing.config import Settings
from hicache_tracing.guard import Seam, Steps, around, say
from hicache_tracing.patching import Patch, Wrap, apply_all, defines, recognised
from hicache_tracing.records import SeamState
from hicache_tracing.seams import ALL
from hicache_tracing.seams.base import Target
from hicache_tracing.session import Session

_session: Session | None = None
_patches: list[Patch] = []


def start(settings: Settings | None = None) -> Session:
    """Attach to this process; a second call changes nothing. No ring is opened before a scheduler starts."""
    global _session
    if _session is not None:
        return _session
    session = _session = Session(settings or Settings.from_environment())
    unknown = session.settings.seams_off - {target.seam for target in ALL}
    if unknown:
        say("HICACHE_WITNESS_SEAMS_OFF names what is no seam: %s", ", ".join(sorted(unknown)))
    by_module: dict[str, list[tuple[Target, Seam]]] = defaultdict(list)
    for target in ALL:
        if target.seam in session.settings.seams_off:
            continue
        by_module[target.module].append((target, session.new_seam(target.seam)))
    for module, seams in by_module.items():
        import_hook.after_import(module, partial(attach, session, seams))
    os.register_at_fork(after_in_child=session.forked)
    atexit.register(session.close)
    return session


def stop() -> bool:
    """Put every function back that is still ours. False if somebody wrapped one of them after us: that wrapper of ours
    stays below theirs and passes everything through.
    """
    global _session
    import_hook.forget()
    clean = [patch.revert() for patch in reversed(_patches)]
    for patch in _patches:
        for module in holders(patch.name, patch.wrapper):  # imported it while it was ours
            setattr(module, patch.name, patch.original)
    _patches.clear()
    if _session is not None:
        _session.close()
        _session.silence()
        _session = None
    return all(clean)


def attach(session: Session, seams: list[tuple[Target, Seam]], module: ModuleType) -> None:
    """Patch what is recognised in a module that has just been imported, all of it or, if that fails, nothing."""
    try:
        patches, attached = _recognise(session, seams, module)
        _patches.extend(apply_all(patches))
    except Exception:
        for _, seam in seams:
            seam.on = False
            seam.set(SeamState.TRIPPED)
        raise
    for seam in attached:
        seam.set(SeamState.ATTACHED)


def _recognise(
    session: Session, seams: list[tuple[Target, Seam]], module: ModuleType
) -> tuple[list[Patch], list[Seam]]:
    """The patches for what is as known and not yet patched. The rest is left alone, and its seams say so."""
    patches: list[Patch] = []
    attached = []
    for target, seam in seams:
        owner = getattr(module, target.owner, None) if target.owner else module
        if not defines(owner, target.name) or (target.unless and defines(owner, target.unless)):
            seam.set(SeamState.MISSING)
            continue
        function = vars(owner)[target.name]
        seam.owner = owner
        if any(patch.wrapper is function for patch in _patches):
            continue
        if not any(recognised(function, form) for form in target.forms):
            seam.set(SeamState.UNRECOGNISED)
            session.left_alone(seam)
            continue
        patch = Patch(owner, target.name, _wrap(seam, target.hooks(session)))
        patches += [patch, *aliases(patch)] if owner is module else [patch]
        attached.append(seam)
    return patches, attached


def _wrap(seam: Seam, steps: Steps) -> Wrap:
    return lambda call: around(call, seam, *steps)


def aliases(patch: Patch) -> list[Patch]:
    """The same function in the engine's other modules, which imported it by name before we came."""
    return [
        Patch(module, patch.name, lambda _original: patch.wrapper)
        for module in holders(patch.name, patch.original)
        if module is not patch.owner
    ]


def holders(name: str, function: object) -> list[ModuleType]:
    """The engine's modules in which a name stands for this very function."""
    return [
        module
        for path, module in list(sys.modules.items())
        if path.startswith("sglang.") and getattr(module, "__dict__", {}).get(name) is function
    ]
