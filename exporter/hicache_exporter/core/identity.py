"""Who wrote a ring: the header's identity, read with the distrust that text from another process deserves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_TEXT = 200
ANY_HOST = {"", "0.0.0.0", "::", "[::]", "localhost", "::1", "127.0.0.1"}

# engine functions whose seams tell the facts of a proof
REQUIRED = ("add_one_req", "prepare_for_extend")
LOADS = ("load", "start_loading", "loading_check")
REQUIRED_WITH_HICACHE = (*REQUIRED, *LOADS, "init_load_back", "write")
STORAGE_DELIVERY = ("_handle_prefetch_result", "check_prefetch_progress")
"""One of them tells which host slots a read from storage filled: else an earlier backup would pass for their writer."""
DEVICE_EVICTION = ("_evict_device_leaf", "_demote", "_detach_backuped", "_evict_backuped")


@dataclass(frozen=True, slots=True)
class Identity:
    """One rank of one engine."""

    host: str
    port: int
    rank: str
    """``tp1``, ``pp0-tp1``, ``dp2-tp0``: only the kinds of rank that the engine has more than one of, and tp."""
    dp_rank: int
    leads: bool
    """This rank speaks for its tensor- and pipeline-parallel group: logical tokens are counted here only."""
    tp_rank: int
    pp_rank: int
    page_size: int | None
    bytes_per_token: int | None
    model: str
    served_model_name: str
    engine_version: str
    tree: str
    """Class of the engine's cache; "": not told."""
    has_hicache: bool
    content_mode: str
    in_use: frozenset[str] | None
    """Seams that this process's own cache runs through; None: an older recorder, which did not say."""
    facts: dict[str, Any]
    """The identity as written: for pages and labels that want more."""

    @property
    def address(self) -> str:
        """host:port under which the engine answers on this machine."""
        host = "127.0.0.1" if self.host in ANY_HOST else self.host
        return f"{host}:{self.port}"


def parse_identity(facts: dict[str, Any]) -> Identity | None:
    """None while the process has not told its port: it can't be said yet whose ring this is."""
    port = facts.get("port")
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        return None
    tp, pp, dp = (_number(facts, f"{kind}_rank") or 0 for kind in ("tp", "pp", "dp"))
    pp_size, dp_size = (_number(facts, f"{kind}_size") or 1 for kind in ("pp", "dp"))
    parts = [f"dp{dp}"] * (dp_size > 1) + [f"pp{pp}"] * (pp_size > 1) + [f"tp{tp}"]
    # with data-parallel attention a tensor-parallel rank other than 0 may be the first of its own group
    group_rank, context_rank = _number(facts, "attn_tp_rank"), _number(facts, "attn_cp_rank")
    return Identity(
        host=_text(facts, "host"),
        port=port,
        rank="-".join(parts),
        dp_rank=dp,
        leads=(tp if group_rank is None else group_rank) == 0 and not context_rank and pp == 0,
        tp_rank=tp,
        pp_rank=pp,
        page_size=_number(facts, "page_size"),
        bytes_per_token=_number(facts, "bytes_per_token"),
        model=_text(facts, "model"),
        served_model_name=_text(facts, "served_model_name"),
        engine_version=_text(facts, "engine_version"),
        tree=_text(facts, "tree"),
        has_hicache=facts.get("controller") is not None,
        content_mode=_text(facts, "content_mode") or "off",
        in_use=_names(facts, "in_use"),
        facts=facts,
    )


def watches(seams: dict[str, str], functions: tuple[str, ...], in_use: frozenset[str] | None = None) -> bool:
    """Whether all these engine functions are being recorded, from the state of each seam by its name.

    A function that several classes have (one tree or another) needs one of them attached; none may have tripped. Only
    those ``in_use`` count: nothing will be told by the seams of a tree that this engine has and does not run.
    """
    states: dict[str, set[str]] = {}
    for name, state in seams.items():
        if in_use is not None and name not in in_use:
            continue
        states.setdefault(function_of(name), set()).add(state)
    told = [states.get(function, set()) for function in functions]
    return all("attached" in of_one and "tripped" not in of_one for of_one in told)


def function_of(seam: str) -> str:
    return seam.rpartition(".")[2]


def _number(facts: dict[str, Any], name: str) -> int | None:
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _names(facts: dict[str, Any], name: str) -> frozenset[str] | None:
    value = facts.get(name)
    return frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list) else None


def _text(facts: dict[str, Any], name: str) -> str:
    value = facts.get(name)
    return value[:MAX_TEXT] if isinstance(value, str) else ""
