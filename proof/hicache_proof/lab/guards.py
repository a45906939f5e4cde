"""What must hold for the series to mean anything, each with the numbers that decide it. Pure."""

from __future__ import annotations

from hicache_proof.lab.engine import EngineFacts, Reading, window
from hicache_proof.lab.errors import CannotRunError, PreconditionError, VoidRunError
from hicache_proof.lab.plan import Plan
from hicache_proof.lab.reply import Reply
from hicache_proof.lab.series import Asked
from hicache_proof.lab.sidecar import NoProof, Proof

STRAY_TOKENS = 8
"""A random prompt may share its first tokens with an old one; eight in a row never happen by chance."""


def idle(reading: Reading) -> bool:
    return not reading.running and not reading.queued


def quiet(reading: Reading, url: str) -> None:
    """Refuses an engine that serves somebody else."""
    if not idle(reading):
        raise CannotRunError(
            f"{url} is serving other requests ({reading.running or 0:.0f} running, {reading.queued or 0:.0f} queued), "
            "which would share every window; wait until it is idle, or take --allow-traffic and lose the counters as "
            "a witness"
        )


def finished(before: Reading, after: Reading) -> int:
    """Requests that ended in between, as far as the engine counts them."""
    return int(window(before, after).requests or 0)


def undisturbed(before: Reading, after: Reading, url: str) -> None:
    """Refuses to flush an engine on which requests ended while nothing was asked."""
    if others := finished(before, after):
        raise CannotRunError(
            f"{url} is serving other requests ({others} ended while the lab only watched), and a flush would take "
            "their cache; wait until it is idle, or leave --flush out"
        )


def evicts(plan: Plan) -> None:
    if not plan.fillers:
        raise CannotRunError("a ladder reads from L2, so it can't be combined with --skip-eviction")


def stored(tokens: float | None, expected: int, url: str) -> str:
    """What was verified, in words. Raises PreconditionError if fewer tokens than expected have reached L3."""
    if tokens is None:
        return "not verified: this engine does not count what it writes to storage"
    if tokens >= expected:
        return f"{tokens:,.0f} tokens written to L3, {expected:,} needed (the engine's counter)"
    raise PreconditionError(
        f"precondition failed: not in storage: {tokens:,.0f} of {expected:,} tokens reached the L3 of {url}; emptying "
        "L2 now would lose them. Does the engine's log tell of errors of its storage backend, or is it full?"
    )


def has_storage(facts: EngineFacts) -> None:
    if facts.storage_backend is None:
        raise CannotRunError(
            f"{facts.url} has no L3: series E (--l3) needs a storage backend; start the engine with "
            "--hicache-storage-backend, or attach one to the running engine"
        )


def no_sidecar(why: str, url: str) -> str:
    return (
        f"{why}: without the flight recorder nothing can be proven; start a sidecar on the engine's machine "
        f"(hicache-witness serve --engine {url}) and give its address with --sidecar, or take --without-recorder and "
        'get "consistent" at best'
    )


def no_recorder(sidecar_url: str, engine_url: str, engines: tuple[str, ...] | None, why: str) -> str:
    follows = "does not say which engines it follows" if engines is None else "reads no flight recorder at all"
    if engines:
        follows = f"reads the flight recorder of {', '.join(engines)}"
    return (
        f"the sidecar at {sidecar_url} saw nothing of a request to {engine_url} ({why}); it {follows}. Start the "
        "engine with this package installed beside SGLang and HICACHE_WITNESS=1, and the sidecar on the same machine "
        "with the same HICACHE_WITNESS_DIR; hicache-witness doctor names the stage that is missing. Or take "
        '--without-recorder and get "consistent" at best'
    )


def flushed(probe: Reply, page: int) -> str:
    """``probe``: the answer to a prompt that was in the cache before the flush. Raises CannotRunError."""
    cached = (probe.cached_tokens or 0) - (probe.storage_tokens or 0)
    if cached > page:
        raise CannotRunError(
            f"the engine says that it emptied its cache, but {cached} of {probe.prompt_tokens} tokens of a prompt from "
            "before the flush are still cached; look into the engine's log"
        )
    return f"the cache was emptied: a prompt that it held came back with {cached} cached tokens"


def has_hicache(facts: EngineFacts) -> None:
    if not facts.hicache:
        raise CannotRunError(f"HiCache is off on {facts.url}; start the engine with --enable-hierarchical-cache")


def is_control(facts: EngineFacts) -> None:
    if facts.hicache:
        raise CannotRunError(
            f"HiCache is on at {facts.url}, so it can't be the control; start that engine without "
            "--enable-hierarchical-cache"
        )


def negative_control(asked: Asked, plan: Plan, page: int) -> None:
    """A must be cold, B must come from L1, and neither may show a load-back."""
    _no_load_back(asked)
    if asked.series == "A":
        _cold(asked, page)
    else:
        _hit_in_device(asked, plan)


def _cold(asked: Asked, page: int) -> None:
    cached = asked.reply.cached_tokens
    if cached is not None and cached >= page + STRAY_TOKENS:
        raise VoidRunError(
            f"series A (repetition {asked.repetition}) was not cold: {cached} of {asked.reply.prompt_tokens} tokens "
            "were cached although the prefix is random; "
            "does a proxy answer for the engine, or another cache below it?"
        )


def _no_load_back(asked: Asked) -> None:
    by_reply = asked.reply.host_tokens or 0
    by_counter = (asked.window.load_back_tokens or 0) if asked.exclusive else 0
    by_recorder = _loaded(asked.proof)
    if by_reply or by_counter or by_recorder:
        raise VoidRunError(
            f"series {asked.series} (repetition {asked.repetition}) must show no load-back, but the reply says "
            f"{by_reply} host tokens, the counter moved by {by_counter:.0f} and the recorder saw {by_recorder} loaded: "
            "the run is void; L1 is too small for this prefix or others use the engine; take a shorter --prefix-tokens "
            "and run again"
        )


def _loaded(proof: Proof | NoProof) -> int:
    if isinstance(proof, NoProof) or proof.evidence.load_back is None:
        return 0
    return proof.evidence.load_back.loaded_tokens


def _hit_in_device(asked: Asked, plan: Plan) -> None:
    cached = asked.reply.cached_tokens
    if cached is not None and cached < plan.prefix_tokens:
        raise PreconditionError(
            f"precondition failed: series B must be served from L1, but only {cached} of {plan.prefix_tokens} tokens "
            "were cached right after series A; is the radix cache on, and does the engine report cached tokens "
            "(--enable-cache-report)?"
        )
