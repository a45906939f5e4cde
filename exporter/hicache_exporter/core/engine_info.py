"""What the engine says of itself on /server_info, cut down to a white list.

The answer holds every server argument, the API keys among them. Only the fields named here are ever turned into
Python values; the rest of the text is skipped by the decoder and dropped with the body.
"""

from __future__ import annotations

import re

import msgspec

from hicache_exporter.core.ranks import RankShape

Version = tuple[int, int, int]


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """None: this engine does not say. Sizes are the engine's own: tokens of one rank, hicache_size in GB."""

    version: str | None = None
    served_model_name: str | None = None
    tp_size: int | None = None
    pp_size: int | None = None
    dp_size: int | None = None
    nnodes: int | None = None
    node_rank: int | None = None
    enable_dp_attention: bool | None = None
    attn_cp_size: int | None = None
    page_size: int | None = None
    max_total_num_tokens: int | None = None
    disaggregation_mode: str | None = None
    enable_metrics_for_all_schedulers: bool | None = None
    enable_hierarchical_cache: bool | None = None
    hicache_write_policy: str | None = None
    hicache_storage_backend: str | None = None

    @property
    def shape(self) -> RankShape | None:
        """None where the sizes are missing or make no sense together."""
        if self.tp_size is None:
            return None
        shape = RankShape(
            tp=self.tp_size,
            pp=1 if self.pp_size is None else self.pp_size,
            dp=1 if self.dp_size is None else self.dp_size,
            nodes=1 if self.nnodes is None else self.nnodes,
            node=self.node_rank or 0,
            dp_attention=bool(self.enable_dp_attention),
            attention_cp=self.attn_cp_size or 1,
        )
        return shape if shape.sound else None

    @property
    def release(self) -> Version | None:
        return release_of(self.version) if self.version else None


class ServerInfoError(ValueError):
    """The body is not the engine's /server_info. The message never quotes it."""


def read_server_info(body: bytes) -> EngineInfo:
    """Raises ServerInfoError."""
    try:
        info = msgspec.json.decode(body, type=EngineInfo)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # A decoder's message names the field and the type it wanted, never the value.
        raise ServerInfoError(str(error)) from None
    if info.version is None and info.tp_size is None:
        raise ServerInfoError("neither version nor tp_size in it")
    return info


def release_of(version: str) -> Version | None:
    """``0.5.10.post1`` and ``0.5.24.dev3+g12`` are (0, 5, 10) and (0, 5, 24); a build without a version is None."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})", version)
    release = (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)
    return release if any(release) else None
